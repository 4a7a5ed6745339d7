//! Which definitions belong to whom: every job, pool and target has the source that defines it.

use serde::Deserialize;

use crate::restrictions;

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
    /// Of a login and of a token that are restricted, the jobs that each may delete; pools and targets, which all share, they
    /// leave alone.
    pub only: &'a [Vec<String>],
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
        let own = |only: &Vec<String>| job.is_some_and(|job| restrictions::covers(only, job));
        self.prune && self.covers(source) && self.only.iter().all(own)
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
            only: &[],
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
    fn who_is_restricted_prunes_its_own_jobs_and_nothing_that_is_shared() {
        let only = [vec!["team-a.*".to_owned()], vec!["team-a.x".to_owned()]];
        let scope = |only| Scope {
            prune: true,
            only,
            ..Scope::default()
        };
        assert!(scope(&only[..1]).prunes("s", Some("team-a.y")));
        assert!(!scope(&only[..1]).prunes("s", Some("team-b.x")) && !scope(&only[..1]).prunes("s", None));
        let both = scope(&only);
        assert!(both.prunes("s", Some("team-a.x")) && !both.prunes("s", Some("team-a.y")));
    }
}
