//! Crontabs become job files that say the same.

use farmhand_core::definition::{Command, JobSpec, RunOn, load};
use farmhand_core::document::Source;
use farmhand_core::due;
use farmhand_core::schedule::{ParseContext, Schedule};
use farmhand_import::crontab::{File, Owner, Place, import};
use farmhand_import::{Import, Machine};
use jiff::Timestamp;
use serde_json::Value;

use super::at;

pub(super) fn file(name: &str, text: &str, owner: Owner) -> File {
    File {
        name: name.to_owned(),
        text: text.to_owned(),
        owner,
        place: Place::Any,
        notes: Vec::new(),
        seconds: false,
    }
}

pub(super) fn imported(files: &[File]) -> Import {
    let home = |user: &str| (user == "root").then(|| "/root".to_owned());
    import(
        files,
        &Machine {
            timezone: "Europe/Berlin",
            home: &home,
        },
    )
}

pub(super) fn specs(import: &Import) -> Vec<(String, JobSpec)> {
    let source = Source {
        name: "imported.toml".to_owned(),
        text: import.toml.clone(),
    };
    load(&[source])
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{}", import.toml))
        .into_iter()
        .map(|job| (job.name, job.spec))
        .collect()
}

/// Imports one crontab with one job.
pub(super) fn one(text: &str, owner: Owner) -> (Import, JobSpec) {
    let import = imported(&[file("crontab", text, owner)]);
    let mut specs = specs(&import);
    assert_eq!(specs.len(), 1, "{}", import.toml);
    let spec = specs.remove(0).1;
    (import, spec)
}

pub(super) fn shell(spec: &JobSpec) -> &str {
    match &spec.command {
        Some(Command::Shell(text)) => text,
        other => panic!("{other:?}"),
    }
}

pub(super) fn samples() -> Vec<(Value, File)> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/crontabs.sample");
    let manifest: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(dir.join("manifest.json")).unwrap()).unwrap();
    assert!(!manifest.is_empty());
    (manifest.into_iter())
        .map(|entry| {
            let name = entry["file"].as_str().unwrap();
            let owner = match entry["format"].as_str().unwrap() {
                "system" => Owner::System,
                _ => Owner::User(None),
            };
            let text = std::fs::read_to_string(dir.join(name)).unwrap();
            let file = file(name, &text, owner);
            (entry, file)
        })
        .collect()
}

#[test]
fn every_sample_crontab_imports_with_the_counts_of_its_manifest() {
    for (entry, crontab) in samples() {
        let import = imported(&[crontab]);
        let report = &import.files[0];
        let count = |key: &str| entry[key].as_u64().unwrap() as usize;
        let name = &report.file;
        assert_eq!(report.jobs, count("expected_jobs"), "{name}");
        assert_eq!(report.variables, count("expected_env_lines"), "{name}");
        assert_eq!(report.invalid.len(), count("expected_invalid_lines"), "{name}");
        assert_eq!(report.comments, count("comment_lines"), "{name}");
        let found: Vec<(u64, &str, Option<&str>)> = (import.jobs.iter())
            .map(|j| (j.line as u64, j.schedule.as_str(), j.user.as_deref()))
            .collect();
        let wanted: Vec<(u64, &str, Option<&str>)> = (entry["jobs"].as_array().unwrap().iter())
            .map(|j| {
                (
                    j["line"].as_u64().unwrap(),
                    j["schedule"].as_str().unwrap(),
                    j["user"].as_str(),
                )
            })
            .collect();
        assert_eq!(found, wanted, "{name}");
        assert_eq!(specs(&import).len(), report.jobs, "{name}");
    }
}

#[test]
fn all_samples_together_make_one_job_file() {
    let files: Vec<File> = samples().into_iter().map(|(_, file)| file).collect();
    let import = imported(&files);
    let total: usize = import.files.iter().map(|report| report.jobs).sum();
    assert_eq!(specs(&import).len(), total);
}

#[test]
fn a_job_fires_when_its_crontab_line_did_over_a_year_in_three_zones() {
    let more = "30 2 * * * fixed\n*/30 * * * * wild\n15 1-4/2 * * SUN range\n@hourly hourly\n0 0 29 2 * leap\n\
                59 1,2,3 * 3,4,10,11 0 change\n@daily day\n* 2 * * * minutes\n";
    let more = file("more", more, Owner::User(None));
    // A change by an hour in the north, one in the south, and one by half an hour.
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        let (mut compared, mut fired) = (0, 0);
        for mut crontab in samples().into_iter().map(|(_, f)| f).chain([more.clone()]) {
            crontab.text = format!("CRON_TZ={zone}\n{}", crontab.text);
            let import = imported(&[crontab]);
            let specs = specs(&import);
            for line in &import.jobs {
                let spec = &specs.iter().find(|(name, _)| *name == line.name).unwrap().1;
                assert_eq!(spec.timezone, zone);
                let (schedule, policy) = due::compile(&line.name, spec).unwrap();
                let context = ParseContext {
                    timezone: zone,
                    ..ParseContext::default()
                };
                let cron = Schedule::parse(&[&line.schedule], &context).unwrap();
                let mut from = at("2026-06-30T23:59:59Z");
                let to = at("2027-07-01T00:00:00Z");
                for instant in cron.iter_after(from).take_while(|t| *t < to) {
                    let job: Option<Timestamp> = due::next_run(&schedule, &policy, from);
                    assert_eq!(job, Some(instant), "{zone} {}", line.schedule);
                    (from, fired) = (instant, fired + 1);
                }
                compared += 1;
            }
        }
        assert!(
            compared > 30 && fired > 1_000_000,
            "{zone}: {compared} lines, {fired} instants"
        );
    }
}

#[test]
fn a_percent_sign_ends_the_command_and_begins_its_input() {
    for (line, command, stdin) in [
        (
            r"mail -s x ops%Hello,%%world",
            "mail -s x ops",
            Some("Hello,\n\nworld\n"),
        ),
        (r"date +\%F > x", "date +%F > x", None),
        (r"cat%50\% of \n%", "cat", Some("50% of \\n\n")),
        (r"sed 's/\\n/x/' \\% y", r"sed 's/\\n/x/' \\", Some(" y\n")),
        ("true %", "true", None),
    ] {
        let (_, spec) = one(&format!("* * * * * {line}\n"), Owner::User(None));
        assert_eq!((shell(&spec), spec.stdin.as_deref()), (command, stdin), "{line}");
    }
}

#[test]
fn variables_hold_for_the_jobs_below_them() {
    let text = "A=1\n0 1 * * * first\n B = \" two words \" \n'C'='it''s'\nA=2\n0 2 * * * second\n";
    let import = imported(&[file("-", text, Owner::User(None))]);
    let specs = specs(&import);
    let env = |n: usize| -> Vec<(&str, &str)> {
        (specs[n].1.env.iter())
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect()
    };
    assert_eq!(env(0), [("A", "1")]);
    assert_eq!(env(1), [("A", "2"), ("B", " two words "), ("C", "it''s")]);
    assert_eq!(import.files[0].variables, 4);
}

#[test]
fn an_imported_job_runs_with_the_environment_of_cron() {
    let text = "SHELL=/bin/bash\nMAILTO=ops@example.com\n@reboot\troot\tsource /etc/x && run \"it\"";
    let (import, spec) = one(text, Owner::System);
    assert_eq!(
        spec.command,
        Some(Command::Argv(vec![
            "/bin/bash".to_owned(),
            "-c".to_owned(),
            "source /etc/x && run \"it\"".to_owned()
        ]))
    );
    assert_eq!(
        (spec.run_on, spec.schedule[0].as_str()),
        (RunOn::EachNode, "@reboot")
    );
    assert_eq!(
        (spec.user.as_deref(), spec.cwd.as_deref()),
        (Some("root"), Some("/root"))
    );
    for name in ["HOME", "LOGNAME", "USER"] {
        assert!(!spec.env.contains_key(name), "an agent sets {name} by itself");
    }
    assert_eq!(spec.timezone, "Europe/Berlin");
    let notes: Vec<_> = import.files[0]
        .notes
        .iter()
        .map(|n| (n.line, n.text.as_str()))
        .collect();
    assert!(
        notes
            .iter()
            .any(|(line, text)| *line == 2 && text.starts_with("MAILTO=ops@example.com became `notify`"))
    );
    assert!(
        notes
            .iter()
            .any(|(line, text)| *line == 3 && text.contains("no line end"))
    );
}

#[test]
fn zones_and_delays_are_carried_over_and_a_wrong_zone_is_crons_utc() {
    let text = "CRON_TZ=Asia/Tokyo\nRANDOM_DELAY=5\n0 1 * * * a\nCRON_TZ=Nowhere\nRANDOM_DELAY=0\n0 1 * * * b\nCRON_TZ=\n0 1 * * * c\n";
    let import = imported(&[file("-", text, Owner::User(Some("root".to_owned())))]);
    let specs = specs(&import);
    let zones: Vec<&str> = specs.iter().map(|(_, s)| s.timezone.as_str()).collect();
    assert_eq!(zones, ["Asia/Tokyo", "UTC", "Europe/Berlin"]);
    let spreads: Vec<u64> = specs.iter().map(|(_, s)| s.spread.as_secs()).collect();
    assert_eq!(spreads, [300, 0, 0]);
    assert!(specs.iter().all(|(_, s)| s.user.as_deref() == Some("root")));
}

#[test]
fn bad_lines_are_reported_by_line_and_column_and_stay_as_comments() {
    let text = "# fine\n61 * * * * root x\n  5 4 * * root\n5 4 * foo * root x\n*/5 * * * *\n5 4 * * * root\nnonsense\n\
                5 4 * * * root ok\n";
    let import = imported(&[file("/etc/cron.d/x", text, Owner::System)]);
    let found: Vec<_> = (import.files[0].invalid.iter())
        .map(|bad| (bad.line, bad.column, bad.problem.as_str()))
        .collect();
    assert_eq!(found[0], (2, 1, "minute: 61 is out of range"));
    assert_eq!((found[1].0, found[1].1), (3, 11));
    assert_eq!((found[2].0, found[2].1), (4, 7));
    assert_eq!(found[3], (5, 12, "the user is missing"));
    assert_eq!(found[4], (6, 15, "the command is missing"));
    assert_eq!(found[5].0, 7);
    assert_eq!(specs(&import).len(), 1);
    for line in text.lines() {
        assert!(import.toml.contains(line.trim()), "{line} is in\n{}", import.toml);
    }
    assert!(
        import.toml.contains("# NOT IMPORTED, line 4, column 7: month"),
        "{}",
        import.toml
    );
}

#[test]
fn a_date_that_never_comes_is_a_job_without_a_schedule() {
    let (import, spec) = one("0 0 30 2 * echo never\n", Owner::User(None));
    assert!(spec.schedule.is_empty());
    assert!(import.jobs[0].never);
    assert_eq!(import.files[0].jobs, 1);
    assert!(
        import.toml.contains("# schedule = \"0 0 30 2 *\" never fires"),
        "{}",
        import.toml
    );
}

#[test]
fn what_only_some_crons_write_is_understood() {
    let (import, spec) = one("-*/5 * * * * operator:wheel true\n", Owner::System);
    assert_eq!(
        (spec.user.as_deref(), spec.schedule[0].as_str()),
        (Some("operator"), "*/5 * * * *")
    );
    assert_eq!(import.files[0].notes.len(), 3, "{:?}", import.files[0].notes);
    let (_, spec) = one("@every_minute true\r\n", Owner::User(None));
    assert_eq!((spec.schedule[0].as_str(), shell(&spec)), ("* * * * *", "true"));
}

#[test]
fn no_text_makes_an_invalid_job_file() {
    for text in [
        "",
        "\n\n",
        "#",
        "# only \u{7}comments \u{1b}[2J",
        "A=\u{1}\n* * * * * echo \u{2} \"'''\" \\\\ {x}\n",
        "* * * * * {x}\nSHELL=/bin/zsh\n* * * * * {x}\n",
        "\u{feff}* * * * * x\n",
        "FARMHAND_X=1\n9A=1\n\"a b\"=c\n* * * * * 'é' ünï\n",
        "= = =\n%\n@\n-\n@reboot\n@nonsense x\n",
        "HOME=relative\nSHELL=bash\n* * * * * x\n",
    ] {
        let import = imported(&[file("d/a b\u{7}.crontab", text, Owner::User(None))]);
        assert_eq!(specs(&import).len(), import.jobs.len(), "{text:?}");
    }
}
