//! A prefix for all names that files define, so that one set of files serves several environments of one farm.

use std::collections::BTreeMap;

use super::definition::Definitions;
use crate::definition::spec::flow::FlowSpec;
use crate::definition::spec::job::JobSpec;
use crate::definition::spec::names::check_name;

/// A prefix is made as a name is, or there is none.
/// Errors: With what is wrong with it, and what it is made of.
pub fn check_prefix(prefix: &str) -> Result<(), String> {
    match check_name(prefix) {
        Err(rule) if !prefix.is_empty() => {
            Err(format!("no name can begin with the prefix `{prefix}`: {rule}"))
        }
        _ => Ok(()),
    }
}

impl Definitions {
    /// Puts the prefix before the names that are defined here, and before all names of jobs, pools and targets that a job of these
    /// refers to: what no file defines is this environment's, too, and never another's. Names of locks stay: no file defines a lock.
    pub(super) fn put_before(&mut self, prefix: &str) {
        if prefix.is_empty() {
            return;
        }
        for job in &mut self.jobs {
            before(prefix, &mut job.name);
            job.parents.iter_mut().for_each(|(name, _)| before(prefix, name));
            job.spec
                .triggered_by
                .iter_mut()
                .for_each(|name| before(prefix, name));
            shared(prefix, &mut job.spec);
        }
        self.pools
            .iter_mut()
            .for_each(|pool| before(prefix, &mut pool.name));
        self.targets
            .iter_mut()
            .for_each(|target| before(prefix, &mut target.name));
    }
}

/// Pools and targets: the files define all that their jobs name.
fn shared(prefix: &str, spec: &mut JobSpec) {
    let pools = spec.pool.iter_mut().chain(&mut spec.node_pool);
    pools
        .chain(&mut spec.notify)
        .for_each(|name| before(prefix, name));
    if let Some(FlowSpec { pools, tasks, .. }) = &mut spec.flow {
        let sizes = std::mem::take(pools);
        *pools = BTreeMap::from_iter(
            sizes
                .into_iter()
                .map(|(name, size)| (format!("{prefix}{name}"), size)),
        );
        let named = tasks.values_mut().filter_map(|task| task.pool.as_mut());
        named.for_each(|name| before(prefix, name));
    }
}

fn before(prefix: &str, name: &mut String) {
    name.insert_str(0, prefix);
}

#[cfg(test)]
mod tests {
    use super::check_prefix;
    use crate::definition::{Definitions, load_with};
    use crate::document::Source;

    fn read(prefix: &str, text: &str) -> Result<Definitions, Vec<String>> {
        let source = Source {
            name: "a.toml".to_owned(),
            text: text.to_owned(),
        };
        load_with(&[source], &Default::default(), prefix).map_err(|mistakes| {
            let mistakes = mistakes.located().into_iter();
            mistakes
                .map(|m| format!("{}:{}: {}; {}", m.line, m.column, m.what, m.fix))
                .collect()
        })
    }

    const FILE: &str = "[pool.p]\nsize = 1\n[notify.ops]\nemail = 'ops@example.org'\n[defaults]\nnotify = 'ops'\n\
        [job.a]\ncommand = ['farmhand', 'run', 'b']\npool = 'p'\nnode_pool = 'p'\nlocks = ['p', 'tape']\n\
        [job.b]\ntriggered_by = ['a', 'elsewhere']\n[job.b.task.a]\ncommand = 'x'\npool = 'p'\n";

    #[test]
    fn the_prefix_is_before_what_the_files_define_and_all_jobs_pools_and_targets_that_they_name() {
        let all = read("staging-", FILE).unwrap();
        let (a, b) = (&all.jobs[0], &all.jobs[1]);
        assert_eq!((a.name.as_str(), b.name.as_str()), ("staging-a", "staging-b"));
        assert_eq!(b.spec.triggered_by, ["staging-a", "staging-elsewhere"]);
        let parents: Vec<&str> = b.parents.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(parents, ["staging-a", "staging-elsewhere"]);
        assert_eq!(
            (all.pools[0].name.as_str(), all.targets[0].name.as_str()),
            ("staging-p", "staging-ops")
        );
        let pool = Some("staging-p");
        assert_eq!(
            (a.spec.pool.as_deref(), a.spec.node_pool.as_deref()),
            (pool, pool)
        );
        assert_eq!(
            (&a.spec.notify, &b.spec.notify),
            (&vec!["staging-ops".to_owned()], &a.spec.notify)
        );
        let flow = b.spec.flow.as_ref().unwrap();
        assert_eq!(
            (flow.pools["staging-p"], flow.tasks["a"].pool.as_deref()),
            (1, pool)
        );
        let plain = read("", FILE).unwrap();
        assert_eq!(
            (&a.spec.command, &a.spec.locks),
            (&plain.jobs[0].spec.command, &plain.jobs[0].spec.locks)
        );
    }

    #[test]
    fn what_is_exported_with_the_prefix_is_read_back_without_one() {
        let all = read("staging-", FILE).unwrap();
        let specs: Vec<_> = (all.jobs.iter())
            .map(|job| (job.name.as_str(), serde_json::to_value(&job.spec).unwrap()))
            .collect();
        let jobs: Vec<_> = specs.iter().map(|(name, spec)| (*name, spec)).collect();
        let targets: Vec<_> = all.targets.iter().map(|t| (t.name.as_str(), &t.spec)).collect();
        let text = crate::definition::job_file(&jobs, &all.pools, &targets);
        let back = read("", &text).unwrap_or_else(|wrong| panic!("{wrong:?}\n{text}"));
        for (job, read) in all.jobs.iter().zip(&back.jobs) {
            assert_eq!((&job.name, &job.spec), (&read.name, &read.spec), "{text}");
        }
    }

    #[test]
    fn a_name_that_becomes_too_long_and_a_prefix_that_begins_no_name_are_mistakes() {
        let long = "x".repeat(93);
        let text = format!(
            "[pool.{long}]\nsize = 1\n[notify.{long}]\nemail = 'a@example.org'\n[job.{long}]\ncommand = 'x'\n[job.a]\ncommand = 'x'\n"
        );
        read("stage-x", &text).unwrap();
        let rule = "use a shorter name or a shorter prefix: use letters";
        let wrong = read("staging-", &text).unwrap_err();
        for (wrong, place) in wrong.iter().zip(["1:7: pool", "3:9: target", "5:6: job"]) {
            let what = format!("{place} `{long}` has 101 characters with the prefix `staging-`; {rule}");
            assert!(wrong.starts_with(&what), "{wrong}");
        }
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        for prefix in ["-", "a b", "ops/", "ü-", &"x".repeat(101)] {
            let wrong = check_prefix(prefix).unwrap_err();
            let what = format!("no name can begin with the prefix `{prefix}`: use letters");
            assert!(wrong.starts_with(&what), "{wrong}");
        }
        assert_eq!((check_prefix(""), check_prefix("staging-")), (Ok(()), Ok(())));
    }
}
