//! `farmhand import systemd`: which of several files a unit is, as systemd has it.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::import::of;

const DAILY: &str = "[Timer]\nOnCalendar=daily\n";

/// Writes these files below a directory; what is empty is a link to /dev/null.
fn units(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text.is_empty() {
            true => symlink("/dev/null", &path).unwrap(),
            false => std::fs::write(&path, text).unwrap(),
        }
    }
    dir
}

fn service(program: &str) -> String {
    format!("[Service]\nExecStart=/bin/{program}\n")
}

/// What the files of two directories become: the notes of each file, and the job file.
fn imported(dir: &Path) -> (Value, String) {
    let told = of(dir, &["systemd", "etc", "lib", "--json"]).json();
    let toml = told["toml"].as_str().unwrap().to_owned();
    (told, toml)
}

fn notes(told: &Value, file: &str) -> String {
    let files = told["files"].as_array().unwrap();
    let found = files.iter().find(|report| report["file"] == file);
    found.unwrap_or_else(|| panic!("no {file} in {told:#}"))["notes"].to_string()
}

#[test]
fn of_units_with_one_name_the_first_counts_and_a_masked_one_is_none() {
    let dir = units(&[
        ("etc/backup.timer", "[Timer]\nOnCalendar=hourly\n"),
        ("lib/backup.timer", DAILY),
        ("etc/backup.service", &service("ours")),
        ("lib/backup.service", &service("theirs")),
        // Only the service was copied and edited.
        ("lib/report.timer", DAILY),
        ("etc/report.service", &service("ours")),
        ("lib/report.service", &service("theirs")),
        ("etc/update.timer", ""),
        ("lib/update.timer", DAILY),
        ("lib/update.service", &service("update")),
        ("lib/scrub.timer", DAILY),
        ("etc/scrub.service", ""),
        ("lib/scrub.service", &service("scrub")),
    ]);
    let (told, toml) = imported(dir.path());
    let jobs = told["jobs"].as_array().unwrap().iter();
    let jobs: Vec<&Value> = jobs.map(|job| &job["name"]).collect();
    assert_eq!(jobs, [&json!("backup"), &json!("report")], "{toml}");
    assert!(
        toml.contains("schedule = \"0 * * * *\"") && !toml.contains("theirs"),
        "{toml}"
    );
    let hidden = notes(&told, "etc/backup.timer");
    assert!(hidden.contains("lib/backup.timer is not read"), "{hidden}");
    for masked in ["etc/update.timer", "etc/scrub.service"] {
        assert!(notes(&told, masked).contains("it is masked"), "{told:#}");
    }
}

#[test]
fn drop_ins_and_what_no_wants_directory_names_are_told_in_the_job_file() {
    let dir = units(&[
        ("lib/backup.timer", DAILY),
        ("lib/backup.service", &service("a")),
        ("etc/backup.timer.d/override.conf", "[Timer]\nOnCalendar=hourly\n"),
        ("etc/backup.service.d/override.conf", "[Service]\nUser=me\n"),
        ("etc/timers.target.wants/backup.timer", DAILY),
        ("lib/idle@x.timer", DAILY),
        ("lib/idle@.service", &service("b")),
        ("etc/idle@.service.d/override.conf", "[Service]\nUser=me\n"),
    ]);
    let (told, toml) = imported(dir.path());
    for (file, drop_in) in [
        ("lib/backup.timer", "etc/backup.timer.d"),
        ("lib/backup.service", "etc/backup.service.d"),
        ("lib/idle@.service", "etc/idle@.service.d"),
    ] {
        let told = notes(&told, file);
        assert!(
            told.contains(&format!("what {drop_in} changes is missing")),
            "{told}"
        );
        assert!(
            toml.contains(&format!("#   drop-ins are not read: what {drop_in}")),
            "{toml}"
        );
    }
    assert!(!notes(&told, "lib/backup.timer").contains("*.wants"), "{told:#}");
    assert!(notes(&told, "lib/idle@x.timer").contains("*.wants"), "{told:#}");
}

#[test]
fn instances_that_are_enabled_are_imported_with_their_template() {
    let dir = units(&[
        ("etc/backup@.timer", DAILY),
        ("etc/backup@.service", &service("backup %i")),
        (
            "etc/backup@.timer.d/override.conf",
            "[Timer]\nOnCalendar=hourly\n",
        ),
        ("etc/idle@.timer", DAILY),
    ]);
    let wants = dir.path().join("etc/timers.target.wants");
    std::fs::create_dir(&wants).unwrap();
    symlink("../backup@.timer", wants.join("backup@home.timer")).unwrap();
    // As in a copy of another machine's files.
    symlink("/nowhere/backup@.timer", wants.join("backup@srv.timer")).unwrap();
    let names = |told: &Value| -> Vec<String> {
        let jobs = told["jobs"].as_array().unwrap().iter();
        let mut names: Vec<String> = jobs.map(|job| job["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let told = of(dir.path(), &["systemd", "etc", "--json"]).json();
    assert_eq!(names(&told), ["backup-home", "backup-srv"], "{told:#}");
    let toml = told["toml"].as_str().unwrap();
    assert!(
        toml.contains("\"/bin/backup\", \"home\"") && toml.contains("\"/bin/backup\", \"srv\""),
        "{toml}"
    );
    let all = told["files"].to_string();
    assert!(!all.contains("*.wants directory"), "{told:#}");
    assert_eq!(
        all.matches("what etc/backup@.timer.d changes").count(),
        2,
        "{told:#}"
    );
    assert_eq!(
        all.matches("a template has no instance").count(),
        1,
        "only idle@ has none: {told:#}"
    );
    // The link alone.
    let told = of(
        dir.path(),
        &["systemd", "etc/timers.target.wants/backup@home.timer", "--json"],
    )
    .json();
    assert_eq!(names(&told), ["backup-home"], "{told:#}");
    assert!(
        !told["files"].to_string().contains("*.wants directory"),
        "{told:#}"
    );
}

#[test]
fn the_locale_that_systemd_gives_to_services_is_told_once() {
    let dir = units(&[
        ("etc/systemd/system/a.timer", DAILY),
        ("etc/systemd/system/a.service", &service("a")),
        ("etc/systemd/system/b.timer", DAILY),
        ("etc/systemd/system/b.service", &service("b")),
        ("etc/locale.conf", "LANG=de_DE.UTF-8\nLC_TIME=C.UTF-8\n"),
        ("etc/default/locale", "LANG=de_DE.UTF-8\n"),
    ]);
    let told = of(dir.path(), &["systemd", "etc/systemd/system", "--json"]).json();
    let all = told["files"].to_string();
    assert_eq!(
        all.matches("etc/locale.conf sets LANG, LC_TIME: systemd gives that to services")
            .count(),
        1,
        "{told:#}"
    );
    assert!(!all.contains("etc/default/locale"), "{told:#}");
}

#[test]
fn drop_ins_of_any_name_that_systemd_reads_are_told() {
    let on = "[Service]\nUser=me\n";
    let dir = units(&[
        ("etc/systemd/system/foo-bar@x.timer", DAILY),
        ("etc/systemd/system/foo-bar@.service", &service("a")),
        ("etc/systemd/system/foo-bar@x.service.d/a.conf", on),
        ("etc/systemd/system/foo-bar@.service.d/a.conf", on),
        ("etc/systemd/system/foo-@.service.d/a.conf", on),
        ("etc/systemd/system/service.d/a.conf", on),
        ("etc/systemd/system/timer.d/a.conf", "[Timer]\nPersistent=true\n"),
        (
            "etc/systemd/system.control/foo-bar@x.service.d/50-MemoryMax.conf",
            on,
        ),
        ("etc/systemd/system/foo.service.d/a.conf", on),
    ]);
    let told = of(dir.path(), &["systemd", "etc/systemd/system", "--json"]).json();
    let of_service = notes(&told, "etc/systemd/system/foo-bar@.service");
    for drop_in in [
        "system/foo-bar@x.service.d",
        "system/foo-bar@.service.d",
        "system/foo-@.service.d",
        "system/service.d",
        "system.control/foo-bar@x.service.d",
    ] {
        assert!(
            of_service.contains(&format!("what etc/systemd/{drop_in} changes")),
            "{drop_in}: {of_service}"
        );
    }
    assert!(!of_service.contains("/foo.service.d"), "{of_service}");
    let of_timer = notes(&told, "etc/systemd/system/foo-bar@x.timer");
    assert!(
        of_timer.contains("what etc/systemd/system/timer.d changes"),
        "{of_timer}"
    );
}
