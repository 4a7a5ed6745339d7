//! Crontabs of several hosts become one job file.

use farmhand_core::definition::{JobSpec, Overlap, RunOn};
use farmhand_import::Import;
use farmhand_import::crontab::{File, Owner, Place};

use super::crontab::{file, imported, specs};

fn of(host: &str, path: &str, text: &str) -> File {
    let owner = match path.contains("etc/") {
        true => Owner::System,
        false => Owner::User(Some("app".to_owned())),
    };
    File {
        place: Place::Node(host.to_owned()),
        ..file(&format!("hosts/{host}{path}"), text, owner)
    }
}

/// Each job with its nodes.
fn placed(import: &Import) -> Vec<(String, String)> {
    let all = specs(import).into_iter();
    all.map(|(name, spec)| {
        assert_eq!(spec.run_on, RunOn::EachNode, "{name}");
        (name, spec.placement.to_string())
    })
    .collect()
}

fn jobs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, nodes): &(&str, &str)| ((*name).to_owned(), (*nodes).to_owned());
    expected.iter().map(owned).collect()
}

/// The job of the line that fires at one minute past.
fn at_one(import: &Import) -> JobSpec {
    let mut all = specs(import).into_iter();
    let found = all.find(|(_, spec)| spec.schedule == ["1 * * * *"]);
    found.expect("a job").1
}

#[test]
fn a_line_that_hosts_share_is_one_job_of_these_hosts() {
    let shared = "5 3 * * * root /opt/backup --all\n";
    let import = imported(&[
        of("web-1", "/etc/cron.d/backup", shared),
        of("web-2", "/etc/cron.d/backup", shared),
        of(
            "web-3",
            "/etc/crontab",
            &format!("{shared}9 9 * * * www /opt/report\n"),
        ),
        of("db-1", "/etc/cron.d/backup", "7 3 * * * root /opt/backup --all\n"),
    ]);
    assert_eq!(
        placed(&import),
        jobs(&[
            ("backup", "node=web-1 or web-2 or web-3"),
            ("backup-db-1", "node=db-1"),
            ("report-web-3", "node=web-3"),
        ])
    );
    assert_eq!(import.jobs.len(), 3);
    assert_eq!(import.jobs[0].nodes, ["web-1", "web-2", "web-3"]);
    let counted: Vec<usize> = import.files.iter().map(|report| report.jobs).collect();
    assert_eq!(counted, [1, 1, 2, 1], "{}", import.toml);
}

#[test]
fn what_a_line_runs_with_makes_it_another_job() {
    for (one, other) in [
        ("1 * * * * x\n", "2 * * * * x\n"),
        ("1 * * * * x\n", "1 * * * * x -v\n"),
        ("1 * * * * x\n", "1 * * * * x%in\n"),
        ("1 * * * * x\n", "A=1\n1 * * * * x\n"),
        ("1 * * * * x\n", "CRON_TZ=UTC\n1 * * * * x\n"),
        ("1 * * * * x\n", "RANDOM_DELAY=5\n1 * * * * x\n"),
        ("MAILTO=a@b.c\n1 * * * * x\n", "MAILTO=d@b.c\n1 * * * * x\n"),
    ] {
        let import = imported(&[of("a", "", one), of("b", "", other)]);
        let expected = jobs(&[("x-a", "node=a"), ("x-b", "node=b")]);
        assert_eq!(placed(&import), expected, "{other}");
        let import = imported(&[of("a", "", other), of("b", "", other)]);
        assert_eq!(placed(&import), jobs(&[("x", "node=a or b")]), "{other}");
    }
    let by_user = |user: &str| format!("1 * * * * {user} x\n");
    let import = imported(&[
        of("a", "/etc/crontab", &by_user("root")),
        of("b", "/etc/crontab", &by_user("www")),
    ]);
    assert_eq!(placed(&import), jobs(&[("x-a", "node=a"), ("x-b", "node=b")]));
}

#[test]
fn a_line_that_a_host_has_twice_is_two_jobs() {
    let import = imported(&[
        of("a", "", "1 * * * * x\n1 * * * * x\n"),
        of("b", "", "1 * * * * x\n"),
    ]);
    assert_eq!(placed(&import), jobs(&[("x", "node=a or b"), ("x-a", "node=a")]));
}

#[test]
fn what_hosts_share_is_said_once() {
    let text = "# the nightly one\nMAILTO=root\n@reboot x\n1 * * * * flock -n /run/l y\n";
    let own = format!("{text}# only here\n");
    let import = imported(&[of("a", "", text), of("b", "", text), of("c", "", &own)]);
    let count = |text: &str| import.toml.matches(text).count();
    assert_eq!(count("# the nightly one"), 1, "{}", import.toml);
    assert_eq!(count("# cron: MAILTO=root"), 1, "{}", import.toml);
    assert_eq!((count("# ---- hosts/a"), count("# ---- hosts/b")), (1, 0));
    assert_eq!(count("# ---- hosts/c\n# only here"), 1, "{}", import.toml);
    let notes: Vec<usize> = import.files.iter().map(|report| report.notes.len()).collect();
    assert!(notes[0] > 0 && notes[1..] == [0, 0], "{:#?}", import.files);
    let told = |text: &str| import.files[0].notes.iter().any(|note| note.text.contains(text));
    assert!(!told("add `where`"), "it has one: {:#?}", import.files[0]);
    assert!(told("which holds on each node"), "{:#?}", import.files[0]);
    let spec = at_one(&import);
    assert_eq!(spec.overlap, Overlap::Skip);
}

#[test]
fn a_lock_that_lines_of_one_host_share_is_left_to_flock_on_all() {
    let line = "1 * * * * flock -n /run/l y\n";
    let import = imported(&[
        of("a", "", line),
        of("b", "", &format!("{line}2 * * * * flock -n /run/l z\n")),
    ]);
    let spec = at_one(&import);
    assert_eq!(super::crontab::shell(&spec), "flock -n /run/l y");
}

#[test]
fn a_text_that_looks_like_a_variable_of_job_files_stays() {
    let import = imported(&[of("a", "", "1 * * * * echo ${vars.x} '$${vars.y}'\n")]);
    assert_eq!(
        super::crontab::shell(&at_one(&import)),
        "echo ${vars.x} '$${vars.y}'"
    );
}

#[test]
fn jobs_of_each_node_name_none() {
    let import = imported(&[File {
        place: Place::EachNode,
        ..file("crontab", "1 * * * * x\n@reboot y\n", Owner::User(None))
    }]);
    assert_eq!(placed(&import), jobs(&[("x", ""), ("y", "")]));
    assert_eq!(import.toml.matches("run_on").count(), 1, "{}", import.toml);
}
