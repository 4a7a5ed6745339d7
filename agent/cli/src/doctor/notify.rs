//! Judging targets of messages.

use farmhand_store::notify::TargetRow;

use super::{Check, Level};

pub(crate) fn judge(target: &TargetRow) -> Check {
    let name = &target.name;
    if target.spec.is_none() {
        return Check::bad(
            Level::Failure,
            "notify",
            format!(
                "{name} is not defined, and is named by {}",
                target.jobs.join(", ")
            ),
            "nobody is told of what happens to these jobs",
            format!("apply a file with [notify.{name}], or take it out of `notify`"),
        );
    }
    let Some(trouble) = &target.trouble else {
        return Check::ok("notify", format!("{name}: nothing that could not be delivered"));
    };
    let by = trouble.sent_by.as_deref().unwrap_or("an agent");
    let tried = format!(
        "{name}: {by} could not deliver by {}: {}",
        trouble.channel, trouble.error
    );
    let impact = format!(
        "{} messages wait, {} were given up within a day",
        target.waiting, target.failed
    );
    let fix =
        format!("fix what it says, then `farmhand notify test {name}`; what waits is tried again by itself");
    Check::bad(Level::Warning, "notify", tried, impact, fix)
}

#[cfg(test)]
mod tests {
    use farmhand_core::notify::{Channel, TargetSpec};
    use farmhand_store::notify::Trouble;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_target_that_cannot_be_reached_warns_and_one_that_nobody_defines_fails() {
        let mut target = TargetRow {
            name: "ops".to_owned(),
            spec: Some(TargetSpec::default()),
            source: String::new(),
            jobs: vec!["payroll".to_owned()],
            waiting: 1,
            failed: 0,
            last_delivery: None,
            trouble: None,
        };
        assert_eq!(judge(&target).level, Level::Ok);
        target.trouble = Some(Trouble {
            channel: Channel::Email,
            error: "this agent sends no mail".to_owned(),
            tries: 1,
            since: Timestamp::UNIX_EPOCH,
            sent_by: Some("n1".to_owned()),
            over: false,
        });
        let check = judge(&target);
        assert_eq!(check.level, Level::Warning);
        assert!(check.found.contains("n1 could not deliver by email"), "{check:?}");
        target.spec = None;
        let check = judge(&target);
        assert_eq!(check.level, Level::Failure);
        assert!(check.found.contains("payroll"), "{check:?}");
    }
}
