use farmhand_core::definition::load;
use farmhand_core::document::Source;
use jiff::tz::TimeZone;
use serde_json::json;

use super::*;

fn at(time: &str) -> Timestamp {
    format!("2026-11-26T{time}Z").parse().unwrap()
}

fn log(lines: &[&str]) -> Log {
    let mut log = Log::new(TimeZone::UTC, at("12:00:00"));
    for line in lines {
        let (time, rest) = line.split_once(' ').unwrap();
        log.line(&format!("2026-11-26T{time}+00:00 {rest}"));
    }
    log
}

/// Jobs of a file that observe since nine, with what was recorded of each: its node, why, and when.
fn jobs(text: &str, recorded: &[(&str, Option<&str>, &str, &[&str])]) -> Vec<Observing> {
    let source = Source {
        name: "j".to_owned(),
        text: format!("[defaults]\nobserve = true\n{text}"),
    };
    let jobs = load(&[source]).unwrap_or_else(|wrong| panic!("{wrong}"));
    jobs.iter()
        .map(|job| {
            let of = recorded.iter().filter(|(name, ..)| *name == job.name);
            let rows = of.flat_map(|(_, node, reason, times)| {
                times.iter().map(move |time| Recorded {
                    node: node.map(str::to_owned),
                    reason: (*reason).to_owned(),
                    first: at(time),
                    last: at(time),
                })
            });
            Observing::new(&job.name, &job.spec, at("09:00:30"), rows.collect())
        })
        .collect()
}

fn compared(log: &Log, jobs: &[Observing]) -> Comparison {
    let window = Window {
        from: at("09:00:30"),
        to: at("12:00:00"),
        only: None,
        now: at("12:00:00"),
    };
    compare(log, &BTreeMap::new(), jobs, &window)
}

fn verdicts(comparison: &Comparison) -> Vec<(&str, u64, usize, usize, Verdict)> {
    (comparison.jobs.iter())
        .map(|j| {
            (
                j.job_id.as_str(),
                j.both,
                j.only_cron.len(),
                j.only_farm.len(),
                j.verdict,
            )
        })
        .collect()
}

const EACH: &str = "[job.a]\nschedule = '0 * * * *'\ncommand = 'backup'\nuser = 'root'\nrun_on = 'each-node'\nwhere = { node = ['w1', 'w2'] }\n";

#[test]
fn what_both_have_is_safe_and_seconds_do_not_matter() {
    let log = log(&[
        "08:59:00 w1 systemd[1]: up",
        "08:59:00 w2 systemd[1]: up",
        // Before it observed: not compared.
        "09:00:01 w1 CRON[1]: (root) CMD (backup)",
        "10:00:02 w1 CRON[1]: (root) CMD (  backup )",
        "10:00:01 w2 CRON[1]: (root) CMD (backup)",
        "11:30:00 w1 systemd[1]: up",
        "11:30:00 w2 systemd[1]: up",
    ]);
    let rows = |node| ("a", Some(node), "observed", &["10:00:00"][..]);
    let found = compared(&log, &jobs(EACH, &[rows("w1"), rows("w2")]));
    assert_eq!(verdicts(&found), [("a", 2, 0, 0, Verdict::Same)]);
    assert!(found.is_safe(), "{found:?}");
}

#[test]
fn what_one_of_them_lacks_is_told_with_its_node_and_the_recorded_reason() {
    let log = log(&[
        "09:05:00 w1 systemd[1]: up",
        "09:05:00 w2 systemd[1]: up",
        "10:00:01 w1 CRON[1]: (root) CMD (backup)",
        "11:00:01 w1 CRON[1]: (root) CMD (backup)",
        "11:00:01 w1 CRON[1]: (root) CMD (unheard of)",
        "11:01:01 w2 CRON[1]: (root) CMD (unheard of)",
        "11:00:01 w1 CRON[1]: (mallory) CMD (backup)",
        "11:30:00 w1 systemd[1]: up",
        "11:30:00 w2 systemd[1]: up",
    ]);
    let recorded: &[(&str, Option<&str>, &str, &[&str])] = &[
        ("a", Some("w1"), "observed", &["10:00:00"]),
        ("a", Some("w2"), "observed", &["10:00:00"]),
        ("a", None, "missed", &["11:00:00"]),
    ];
    let found = compared(&log, &jobs(EACH, recorded));
    assert_eq!(verdicts(&found), [("a", 1, 1, 1, Verdict::Differs)]);
    let cron = Single {
        at: at("11:00:00"),
        node: Some("w1".to_owned()),
        why: Some("missed".to_owned()),
    };
    assert_eq!(found.jobs[0].only_cron, [cron]);
    assert_eq!(found.jobs[0].only_farm[0].node.as_deref(), Some("w2"));
    let unknown: Vec<(&str, &str, u64, usize)> = (found.unknown.iter())
        .map(|u| (u.user.as_str(), u.command.as_str(), u.count, u.nodes.len()))
        .collect();
    assert_eq!(
        unknown,
        [("mallory", "backup", 1, 1), ("root", "unheard of", 2, 2)]
    );
    assert!(!found.is_safe());
}

#[test]
fn a_node_without_a_log_and_a_command_that_is_never_in_it_are_no_reason_to_switch() {
    let log = log(&["09:05:00 w1 systemd[1]: up", "11:30:00 w1 systemd[1]: up"]);
    let rows = |node| ("a", Some(node), "observed", &["10:00:00"][..]);
    let unseen = compared(&log, &jobs(EACH, &[rows("w1")]));
    assert_eq!(verdicts(&unseen), [("a", 0, 0, 1, Verdict::Unseen)]);
    let no_log = compared(&log, &jobs(EACH, &[rows("w2")]));
    assert_eq!(verdicts(&no_log), [("a", 0, 0, 0, Verdict::NoLog)]);
    assert!(no_log.jobs[0].without_log.contains("w2"));
    let idle = compared(&log, &jobs(EACH, &[]));
    assert_eq!(verdicts(&idle), [("a", 0, 0, 0, Verdict::NotDue)]);
    // Nothing was compared at all.
    assert!(!unseen.is_safe() && !no_log.is_safe() && !idle.is_safe());
}

#[test]
fn the_ends_of_a_log_and_what_is_due_just_now_are_no_difference() {
    let log = log(&[
        "10:00:30 w1 systemd[1]: up",
        "10:01:01 w1 CRON[1]: (root) CMD (x)",
        "11:59:30 w1 CRON[1]: (root) CMD (x)",
        "11:59:30 w1 systemd[1]: up",
    ]);
    let recorded: &[(&str, Option<&str>, &str, &[&str])] =
        &[("x", None, "observed", &["10:00:00", "10:01:00"])];
    let file = "[job.x]\nschedule = '* * * * *'\ncommand = 'x'\nuser = 'root'\n";
    let found = compared(&log, &jobs(file, recorded));
    assert_eq!(verdicts(&found), [("x", 1, 0, 0, Verdict::Same)]);
}

#[test]
fn cron_and_the_farm_may_each_move_a_job_by_its_delay() {
    let log = log(&[
        "09:05:00 w1 systemd[1]: up",
        "10:04:01 w1 CROND[1]: (root) CMD (x)",
        "10:41:01 w1 CROND[1]: (root) CMD (x)",
        "11:06:01 w1 CROND[1]: (root) CMD (x)",
        "11:50:00 w1 systemd[1]: up",
    ]);
    // The farm moves it by eleven minutes each time, cron by 4, 11 and 6.
    let farm = &["10:11:20", "10:41:20", "11:11:20"];
    let file = "[job.x]\nschedule = '*/30 * * * *'\ncommand = 'x'\nuser = 'root'\nspread = '15m'\n";
    let found = compared(&log, &jobs(file, &[("x", None, "observed", farm)]));
    assert_eq!(verdicts(&found), [("x", 3, 0, 0, Verdict::Same)]);
    let found = compared(&log, &jobs(file, &[("x", None, "observed", &farm[..2])]));
    assert_eq!(verdicts(&found), [("x", 2, 1, 0, Verdict::Differs)]);
}

#[test]
fn what_no_log_has_the_time_of_is_no_reason_to_switch() {
    let log = log(&[
        "10:30:00 w1 systemd[1]: up",
        "11:00:01 w1 CRON[1]: (root) CMD (other)",
        "11:30:00 w1 systemd[1]: up",
        "10:30:00 w2 systemd[1]: up",
        "10:50:00 w2 systemd[1]: up",
    ]);
    let file = "[job.x]\nschedule = '0 10 * * *'\ncommand = 'x'\nuser = 'root'\n\
        [job.y]\nschedule = '0 * * * *'\ncommand = 'other'\nuser = 'root'\n";
    let recorded: &[(&str, Option<&str>, &str, &[&str])] = &[
        ("x", None, "observed", &["10:00:00"]),
        ("y", None, "observed", &["10:00:00", "11:00:00"]),
    ];
    let found = compared(&log, &jobs(file, recorded));
    let expected = [("x", 0, 0, 0, Verdict::NoLog), ("y", 1, 0, 0, Verdict::Same)];
    assert_eq!(verdicts(&found), expected);
    assert_eq!((found.jobs[0].outside, found.jobs[1].outside), (1, 1));
    assert!(!found.is_safe());

    // Of each node its own log has to have the time.
    let each = EACH.replace("backup", "other");
    let rows = |node| ("a", Some(node), "observed", &["11:00:00"][..]);
    let found = compared(&log, &jobs(&each, &[rows("w1"), rows("w2")]));
    assert_eq!(verdicts(&found), [("a", 1, 0, 0, Verdict::NoLog)]);
    assert_eq!(found.jobs[0].without_log, BTreeSet::from(["w2".to_owned()]));
}

#[test]
fn a_job_without_a_user_differs_and_the_user_of_the_log_is_told() {
    let log = log(&[
        "09:30:00 w1 systemd[1]: up",
        "10:00:01 w1 CRON[1]: (deploy) CMD (x)",
        "11:30:00 w1 systemd[1]: up",
    ]);
    let file = |user: &str| format!("[job.x]\nschedule = '0 10 * * *'\ncommand = 'x'\n{user}");
    let recorded: &[(&str, Option<&str>, &str, &[&str])] = &[("x", None, "observed", &["10:00:00"])];
    let found = compared(&log, &jobs(&file(""), recorded));
    assert_eq!(verdicts(&found), [("x", 1, 0, 0, Verdict::Differs)]);
    assert_eq!(found.jobs[0].ran_as, BTreeSet::from(["deploy".to_owned()]));
    assert!(!found.is_safe());
    let found = compared(&log, &jobs(&file("user = 'deploy'\n"), recorded));
    assert!(found.is_safe(), "{found:?}");
    // A line is that of the job that names its user, if there is one.
    let both = "[job.a]\nschedule = '0 11 * * *'\ncommand = 'x'\n".to_owned() + &file("user = 'deploy'\n");
    let found = compared(&log, &jobs(&both, recorded));
    assert_eq!(verdicts(&found)[1], ("x", 1, 0, 0, Verdict::Same));
    assert!(found.jobs[0].ran_as.is_empty() && found.is_safe(), "{found:?}");
}

#[test]
fn two_jobs_with_one_command_share_its_lines() {
    let log = log(&[
        "09:30:00 w1 systemd[1]: up",
        "10:00:01 w1 CRON[1]: (root) CMD (x)",
        "10:00:01 w1 CRON[1]: (root) CMD (x)",
        "10:30:01 w1 CRON[1]: (root) CMD (x)",
        "11:50:00 w1 systemd[1]: up",
    ]);
    let file = "[job.a]\nschedule = '0 * * * *'\ncommand = 'x'\nuser = 'root'\n\
        [job.b]\nschedule = '*/30 * * * *'\ncommand = 'x'\nuser = 'root'\n\
        [job.boot]\nschedule = '@reboot'\ncommand = 'warm'\nrun_on = 'each-node'\n";
    let recorded: &[(&str, Option<&str>, &str, &[&str])] = &[
        ("a", None, "observed", &["10:00:00"]),
        ("b", None, "observed", &["10:00:00", "10:30:00"]),
    ];
    let found = compared(&log, &jobs(file, recorded));
    assert_eq!(
        verdicts(&found),
        [
            ("a", 1, 0, 0, Verdict::Same),
            ("b", 2, 0, 0, Verdict::Same),
            ("boot", 0, 0, 0, Verdict::AtBoot)
        ]
    );
    assert!(found.is_safe());
}

/// What `farmhand import crontab` makes of a line, and what cron logs of it.
#[test]
fn each_command_is_found_that_the_import_made() {
    let cases = [
        ("date +\\%F >> /var/log/d", "date +%F >> /var/log/d"),
        ("date +\\%F >> /var/log/d", "date +\\%F >> /var/log/d"),
        ("mail ops%hello%there", "mail ops"),
        ("mail ops%hello%there", "mail ops%hello%there"),
        (
            "flock -n /run/x.lock /usr/bin/sync -a",
            "flock -n /run/x.lock /usr/bin/sync -a",
        ),
        ("poll &", "poll &"),
        ("echo {due} {instance}", "echo {due} {instance}"),
        ("echo gr\u{fc}\u{df}e", "echo gr\\303\\274\\303\\237e"),
        ("echo gr\u{fc}\u{df}e", "echo gr\u{fc}\u{df}e"),
        ("echo a\tb", "echo a^Ib"),
    ];
    for shell in ["", "SHELL=/bin/bash\n"] {
        for (line, logged) in cases {
            let machine = crate::Machine {
                timezone: "UTC",
                home: &|_| None,
            };
            let file = crate::crontab::File {
                name: "tab".to_owned(),
                text: format!("{shell}0 * * * * {line}\n"),
                owner: crate::crontab::Owner::User(Some("root".to_owned())),
                place: crate::crontab::Place::Any,
                notes: Vec::new(),
                seconds: false,
            };
            let import = crate::crontab::import(&[file], &machine);
            let source = Source {
                name: "j".to_owned(),
                text: import.toml.clone(),
            };
            let job = load(&[source]).unwrap_or_else(|wrong| panic!("{}{wrong}", import.toml));
            let row =
                json!({"node": null, "reason": "observed", "first": at("10:00:00"), "last": at("10:00:00")});
            let rows = vec![serde_json::from_value(row).unwrap()];
            let job = Observing::new(&job[0].name, &job[0].spec, at("09:00:30"), rows);
            let log = log(&[&format!("10:00:01 w1 CRON[1]: (root) CMD ({logged})")]);
            let found = compared(&log, &[job]);
            assert!(found.is_safe(), "{shell}{line}: {found:?}");
        }
    }
}

#[test]
fn a_timers_unit_is_the_job_that_has_it_as_a_tag() {
    let text = "[job.a]\nschedule = '0 * * * *'\ncommand = ['/usr/bin/a']\nuser = 'root'\ntags = ['a.service']\n\
                [job.b]\nschedule = '@every 3600s'\ncommand = 'b'\ntags = ['b.service']\n";
    let recorded: [(&str, Option<&str>, &str, &[&str]); 2] = [
        ("a", None, "observed", &["10:00:00", "11:00:00"]),
        ("b", None, "observed", &["10:00:00"]),
    ];
    let lines = [
        "08:00:00 h systemd[1]: up",
        "10:01:20 h systemd[1]: Starting a.service - A...",
        "10:01:30 h systemd[1]: Finished a.service - A.",
        "10:31:00 h systemd[1]: Started b.service - B.",
        "10:40:00 h systemd[1]: Started ssh.service - not a timer's.",
        "11:00:07 h systemd[1]: Starting a.service - A...",
        "11:59:00 h systemd[1]: up",
    ];
    let same = compared(&log(&lines), &jobs(text, &recorded));
    assert_eq!(
        verdicts(&same),
        [("a", 2, 0, 0, Verdict::Same), ("b", 1, 0, 0, Verdict::Same)]
    );
    assert!(same.is_safe(), "{same:?}");
    let differs = compared(&log(&[&lines[..5], &lines[6..]].concat()), &jobs(text, &recorded));
    assert_eq!(verdicts(&differs)[0], ("a", 1, 0, 1, Verdict::Differs));
}
