//! Rules of Kubernetes' CronJobs that real ones showed to matter.

use farmhand_core::definition::{Command, DstPolicy};
use farmhand_core::due;
use serde_json::{Value, json};

use super::at;
use super::kubernetes::{cron_job, imported, notes, specs};

fn expression(schedule: &str) -> String {
    let object = cron_job(&json!({"schedule": schedule}), &json!({}), &json!({}));
    specs(&imported(vec![object]))[0].1.schedule[0].clone()
}

/// robfig/cron, which Kubernetes uses: only `*`, `?` and a step of one leave the days to the other field.
#[test]
fn steps_of_days_beside_weekdays_mean_either() {
    for (written, wanted) in [
        ("0 0 */2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 1 * */2", "0 0 1 * 0-6/2"),
        ("0 0 */10,5 * */3", "0 0 1-31/10,5 * 0-6/3"),
        ("0 0 */2 * *", "0 0 */2 * *"),
        ("0 0 ? * */2", "0 0 ? * */2"),
        ("0 0 */1 * MON", "0 0 */1 * MON"),
        ("0 0 1,15 * MON", "0 0 1,15 * MON"),
        ("*/5 */2 * * *", "*/5 */2 * * *"),
        ("@daily", "@daily"),
    ] {
        assert_eq!(expression(written), wanted, "{written}");
    }
    let object = cron_job(&json!({"schedule": "0 0 */10 * 1"}), &json!({}), &json!({}));
    let spec = &specs(&imported(vec![object]))[0].1;
    let (schedule, policy) = due::compile("x", spec).unwrap();
    let next = |after: &_| due::next_run(&schedule, &policy, *after);
    let days: Vec<String> = std::iter::successors(next(&at("2026-06-01T00:00:00Z")), next)
        .take(6)
        .map(|at| at.to_string()[5..10].to_owned())
        .collect();
    // Mondays, and the 1st, 11th, 21st and 31st.
    assert_eq!(days, ["06-08", "06-11", "06-15", "06-21", "06-22", "06-29"]);
}

#[test]
fn a_time_that_a_change_of_the_clock_removes_is_left_out() {
    let object = cron_job(&json!({"timeZone": "Europe/Berlin"}), &json!({}), &json!({}));
    assert_eq!(specs(&imported(vec![object]))[0].1.dst, DstPolicy::Skip);
}

#[test]
fn a_word_of_a_command_that_is_no_text_is_refused() {
    for (word, part) in [
        (json!({"key": "value"}), r#"{"key":"value"}"#),
        (json!(null), "null"),
    ] {
        let object = cron_job(&json!({}), &json!({}), &json!({"command": ["/app/run", word]}));
        let import = imported(vec![object]);
        let problem = &import.files[0].invalid[0].problem;
        assert!(
            problem.contains(&format!("command[1] of its container is {part}")),
            "{problem}"
        );
    }
}

#[test]
fn a_zone_in_the_schedule_beside_another_one_is_told() {
    let spec = json!({"schedule": "CRON_TZ=Asia/Tokyo 0 3 * * *", "timeZone": "Europe/Berlin"});
    let import = imported(vec![cron_job(&spec, &json!({}), &json!({}))]);
    assert_eq!(specs(&import)[0].1.timezone, "Europe/Berlin");
    assert!(
        notes(&import)
            .iter()
            .any(|note| note.contains("names Asia/Tokyo"))
    );
}

#[test]
fn args_alone_that_name_a_program_are_the_command() {
    for args in [json!(["/bin/sh", "-c", "date"]), json!(["sh", "-c", "date"])] {
        let object = cron_job(&json!({}), &json!({}), &json!({"command": null, "args": args}));
        let import = imported(vec![object]);
        let argv: Vec<String> = serde_json::from_value(args).unwrap();
        assert_eq!(specs(&import)[0].1.command, Some(Command::Argv(argv)));
        assert!(
            notes(&import)
                .iter()
                .any(|note| note.contains("is taken for the program"))
        );
    }
}

#[test]
fn variables_in_the_command_whose_values_are_elsewhere_are_told() {
    let container = json!({"command": ["/bin/sh", "-c", "pg_dump $(URL) $(date) $(HERE)"],
        "env": [{"name": "URL", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}, {"name": "HERE", "value": "x"}]});
    let import = imported(vec![cron_job(&json!({}), &json!({}), &container)]);
    let notes = notes(&import);
    let told = |part: &str| notes.iter().any(|note| note.contains(part));
    assert!(told("$(URL) in the command is not replaced"), "{notes:?}");
    assert!(!told("$(date)") && !told("$(HERE)"), "{notes:?}");
}

#[test]
fn keys_that_no_job_has_are_told_whatever_they_are() {
    let object = cron_job(
        &json!({}),
        &json!({"hostPID": true, "dnsPolicy": "ClusterFirst", "runtimeClassName": "gvisor", "hostNetwork": false,
            "volumes": [{"name": "scripts", "configMap": {"name": "m"}}]}),
        &json!({"tty": true, "resources": {"limits": {"cpu": "1"}}}),
    );
    let import = imported(vec![object]);
    let notes = notes(&import);
    let told = |part: &str| notes.iter().any(|note| note.contains(part));
    for part in [
        "hostPID",
        "runtimeClassName",
        "tty",
        "volumes (scripts: configMap)",
    ] {
        assert!(told(&format!("{part} is not carried over")), "{part}: {notes:?}");
    }
    assert!(told("the limit of cpu is not carried over"), "{notes:?}");
    assert!(
        !told("dnsPolicy") && !told("hostNetwork") && !told("schedule is"),
        "{notes:?}"
    );
}

#[test]
fn numbers_out_of_range_leave_a_file_that_is_valid() {
    let spec =
        json!({"startingDeadlineSeconds": 0, "activeDeadlineSeconds": 0, "backoffLimit": 2_147_483_647_u64});
    let limit = |memory: Value| {
        let container = json!({"command": ["x", 5, true], "resources": {"limits": {"memory": memory}},
            "env": [{"name": "N", "value": 5}]});
        let import = imported(vec![cron_job(&spec, &json!({}), &container)]);
        specs(&import).remove(0).1
    };
    assert_eq!(limit(json!("512Ki")).limits.memory, None);
    let spec = limit(json!(134_217_728));
    assert_eq!(
        (spec.limits.memory, spec.retry.max),
        (Some(134_217_728), 1_000_000)
    );
    assert_eq!((spec.timeout, spec.env["N"].as_str()), (None, "5"));
    let argv = ["x", "5", "true"].map(str::to_owned).to_vec();
    assert_eq!(spec.command, Some(Command::Argv(argv)));
    let spec = json!({"startingDeadlineSeconds": 4_000_000_000_u64, "activeDeadlineSeconds": i64::MAX});
    let pod = json!({"terminationGracePeriodSeconds": i64::MAX});
    let import = imported(vec![cron_job(&spec, &pod, &json!({}))]);
    let spec = specs(&import).remove(0).1;
    assert_eq!(
        (spec.catch_up.within, spec.timeout, spec.grace.as_secs()),
        (None, None, 365 * 86_400)
    );
    for key in [
        "startingDeadlineSeconds",
        "activeDeadlineSeconds",
        "terminationGracePeriodSeconds",
    ] {
        let told = |note: &&str| note.contains(key) && note.contains("more than a hundred years");
        assert!(notes(&import).iter().any(told), "{key}: {:?}", notes(&import));
    }
}

#[test]
fn a_template_is_named_as_one() {
    let object = cron_job(
        &json!({"schedule": "{{ .Values.schedule }}"}),
        &json!({}),
        &json!({}),
    );
    let bad = &imported(vec![object]).files[0].invalid[0];
    assert!(bad.fix.contains("helm template"), "{bad:?}");
}
