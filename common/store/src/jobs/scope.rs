//! Which definitions belong to whom: every job, pool and target has the source that defines it.

use serde::Deserialize;

use farmhand_core::patterns;

/// A job that names a pool or a target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    pub job_id: String,
    /// Where that job's definition came from.
    pub source: String,
}

/// Which definitions an apply may touch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// The sources that it applies: files, a name, or directories, which end with a slash. None: any definition, and its
    /// source stays.
    pub sources: Option<&'a [String]>,
    /// Delete what these sources defined before and do not define any more.
    pub prune: bool,
    /// Take over what another source defines.
    pub take_over: bool,
    /// Of a token for some jobs, those that it may delete; pools and targets, which all share, it leaves alone.
    pub only: Option<&'a [String]>,
}

impl Scope<'_> {
    /// Whether what `source` defined is within these sources: the same, or a file in one of these directories.
    pub fn covers(&self, source: &str) -> bool {
        let within = |of: &String| source == of || (of.ends_with('/') && source.starts_with(of.as_str()));
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

    /// Whether a job's definition, or without one that of a pool or target, is deleted that `source` defined and these files
    /// do not have.
    pub fn prunes(&self, source: &str, job: Option<&str>) -> bool {
        let own = |only| job.is_some_and(|job| patterns::covers(only, job));
        self.prune && self.covers(source) && self.only.is_none_or(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_a_directory_with_its_files_or_a_name() {
        let sources = ["jobs/".to_owned(), "ops/a.toml".to_owned(), "infra".to_owned()];
        let scope = Scope {
            sources: Some(&sources),
            prune: true,
            take_over: false,
            only: None,
        };
        for (source, covered) in [
            ("jobs", false),
            ("jobs/a.toml", true),
            ("jobs/b/c.toml", true),
            ("jobs.toml", false),
            ("jobs-old/a.toml", false),
            ("ops/a.toml", true),
            ("ops/b.toml", false),
            ("a.toml", false),
            ("infra", true),
            ("infra/a.toml", false),
        ] {
            assert_eq!(scope.covers(source), covered, "{source}");
        }
        assert!(Scope::default().covers("anything") && !Scope::default().prunes("anything", None));
    }

    #[test]
    fn a_token_for_some_jobs_prunes_these_and_nothing_that_is_shared() {
        let only = ["team-a.*".to_owned()];
        let scope = Scope {
            prune: true,
            only: Some(&only),
            ..Scope::default()
        };
        assert!(scope.prunes("s", Some("team-a.y")));
        assert!(!scope.prunes("s", Some("team-b.x")) && !scope.prunes("s", None));
    }
}
