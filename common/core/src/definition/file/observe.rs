//! `observe = true` of a file, and what cannot be observed.

use serde_json::Value;

use crate::definition::spec::enabled::Enabled;
use crate::definition::spec::job::JobSpec;
use crate::document::Reader;

/// A job that is not enabled has nothing to observe.
pub(super) fn settle(stored: &Value, spec: &mut JobSpec) {
    if stored["observe"] == true && spec.enabled == Enabled::Yes {
        spec.enabled = Enabled::Observe;
    }
}

pub(super) fn check(job: &mut Reader<'_>, spec: &JobSpec) {
    let kind = match () {
        () if spec.enabled != Enabled::Observe => return,
        () if spec.table.is_some() => "table",
        () if spec.is_continuous() => "continuous",
        () => return,
    };
    job.refuse(
        "observe",
        format!("`observe`: a {kind} job has no due instants to record"),
        "leave it out for this job: observe = false, or enabled = false until it shall run",
    );
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::definition::load;
    use crate::document::{Located, Source};

    fn read(text: &str) -> Result<JobSpec, Vec<Located>> {
        let source = Source {
            name: "j".to_owned(),
            text: text.to_owned(),
        };
        let jobs = load(&[source]).map_err(|mistakes| mistakes.located())?;
        Ok(jobs[0].spec.clone())
    }

    #[test]
    fn it_is_inherited_and_a_job_may_say_otherwise() {
        let cases = [
            ("observe = true", "", Enabled::Observe),
            ("observe = true", "observe = false", Enabled::Yes),
            ("observe = true", "enabled = false", Enabled::No),
            ("", "observe = true", Enabled::Observe),
            ("", "observe = false", Enabled::Yes),
        ];
        for (defaults, own, enabled) in cases {
            let text =
                format!("[defaults]\n{defaults}\n[job.a]\nschedule = '@daily'\ncommand = 'x'\n{own}\n");
            assert_eq!(read(&text).unwrap().enabled, enabled, "{text}");
        }
    }

    #[test]
    fn an_older_release_cannot_read_it_and_files_have_it_back() {
        let spec = read("[job.a]\nschedule = '@daily'\ncommand = 'x'\nobserve = true\n").unwrap();
        let stored = serde_json::to_value(&spec).unwrap();
        // Where releases without `observe` want true or false.
        assert_eq!(stored["enabled"], "observe");
        assert!(bool::deserialize(&stored["enabled"]).is_err());
        assert_eq!(serde_json::from_value::<JobSpec>(stored.clone()).unwrap(), spec);
        let file = crate::definition::job_file(&[("a", &stored)], &[], &[]);
        assert!(
            file.contains("observe = true") && !file.contains("enabled"),
            "{file}"
        );
        assert_eq!(read(&file).unwrap(), spec);
        assert!(serde_json::from_value::<JobSpec>(serde_json::json!({"enabled": "later"})).is_err());
    }

    #[test]
    fn what_has_no_instants_is_refused() {
        let table = "table = { name = 't', key = 'k', dispatch = 'd' }";
        for what in ["schedule = '@continuous'", table] {
            let text = format!("[job.a]\ncommand = 'x'\nobserve = true\n{what}\n");
            let wrong = read(&text).unwrap_err();
            assert!(wrong[0].what.contains("has no due instants"), "{wrong:?}");
        }
    }
}
