//! Which definitions belong to whom: every job, pool and target has the source that defines it.

use serde::Deserialize;

/// A job that names a pool or a target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    pub job_id: String,
    pub source: String,
}

/// Which definitions an apply may touch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// The sources that it applies: files, directories, or a name. None: any definition, and its source stays.
    pub sources: Option<&'a [String]>,
    /// Delete what these sources defined before and do not define any more.
    pub prune: bool,
    /// Take over what another source defines.
    pub take_over: bool,
    /// Jobs that get another name first: the former one and the new one. A former name that no job has changes nothing.
    pub renames: &'a [(String, String)],
}

impl Scope<'_> {
    /// Whether what `source` defined is within these sources: the same, or a file in one of these directories.
    pub fn covers(&self, source: &str) -> bool {
        let within = |of: &String| {
            source == of || (source.strip_prefix(of.as_str())).is_some_and(|rest| rest.starts_with('/'))
        };
        self.sources.is_none_or(|sources| sources.iter().any(within))
    }

    /// Whether what `source` defined may not be changed.
    pub fn forbids(&self, source: &str) -> bool {
        !self.take_over && !self.covers(source)
    }

    /// Whether a definition of the source `from` becomes one of `to`, though nothing else of it changes.
    pub fn moves(&self, from: &str, to: &str) -> bool {
        self.sources.is_some() && from != to && !self.forbids(from)
    }

    /// Whether a definition is deleted that `source` defined and these files do not have.
    pub fn prunes(&self, source: &str) -> bool {
        self.prune && self.covers(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_a_directory_with_its_files_or_a_name() {
        let sources = ["jobs".to_owned(), "ops/a.toml".to_owned()];
        let scope = Scope {
            sources: Some(&sources),
            prune: true,
            take_over: false,
            renames: &[],
        };
        for (source, covered) in [
            ("jobs", true),
            ("jobs/a.toml", true),
            ("jobs/b/c.toml", true),
            ("jobs.toml", false),
            ("jobs-old/a.toml", false),
            ("ops/a.toml", true),
            ("ops/b.toml", false),
            ("a.toml", false),
        ] {
            assert_eq!(scope.covers(source), covered, "{source}");
        }
        assert!(Scope::default().covers("anything") && !Scope::default().prunes("anything"));
    }
}
