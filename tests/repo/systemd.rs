//! The unit, its drop-ins, the user and the directory that the packages ship, as systemd reads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `systemd-analyze security` says, with one decimal: 8.8, and 5.6 with `strict.conf`. `docs/guides/install.md` states them.
const EXPOSURE_TENTHS: u32 = 88;
const STRICT_EXPOSURE_TENTHS: u32 = 56;

/// Standard output and error of a program of systemd's, which must succeed.
fn systemd(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program)
        .args(arguments)
        .env("SYSTEMD_COLORS", "0")
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}: apt-get install systemd"));
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(
        out.status.success(),
        "{program} {arguments:?}: {}\n{said}",
        out.status
    );
    said
}

/// The unit with a program that is there, and with these drop-ins.
fn installed(dir: &Path, drop_ins: &[&str]) -> PathBuf {
    let unit = dir.join("farmhand.service");
    let text = super::read("deploy/systemd/farmhand.service");
    let there = farmhand_tests::bin::farmhand().display().to_string();
    assert_eq!(text.matches("/usr/bin/farmhand ").count(), 1);
    fs::write(&unit, text.replace("/usr/bin/farmhand ", &format!("{there} "))).expect("the unit");
    let drop_in_dir = dir.join("farmhand.service.d");
    fs::create_dir(&drop_in_dir).expect("a directory");
    for name in drop_ins {
        let text = super::read(&format!("deploy/systemd/{name}"));
        fs::write(drop_in_dir.join(name), text).expect("a drop-in");
    }
    unit
}

fn exposure(unit: &Path) -> u32 {
    let path = unit.display().to_string();
    let said = systemd(
        "systemd-analyze",
        &["security", "--offline=true", "--no-pager", &path],
    );
    let line = said
        .lines()
        .find_map(|l| l.split_once("Overall exposure level for farmhand.service:"));
    let level = line.and_then(|(_, rest)| rest.split_whitespace().next());
    let level: f64 = level
        .and_then(|l| l.parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    (level * 10.0).round() as u32
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    for drop_ins in [&[][..], &["strict.conf"][..]] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let unit = installed(dir.path(), drop_ins).display().to_string();
        let said = systemd("systemd-analyze", &["verify", &unit]);
        let ours: Vec<&str> = said.lines().filter(|l| l.contains("farmhand")).collect();
        assert!(ours.is_empty(), "{drop_ins:?}: {}", ours.join("\n"));
    }
}

#[test]
fn the_units_exposure_is_what_the_documentation_states() {
    let text = super::read("docs/guides/install.md");
    for (drop_ins, bound) in [
        (&[][..], EXPOSURE_TENTHS),
        (&["strict.conf"][..], STRICT_EXPOSURE_TENTHS),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let found = exposure(&installed(dir.path(), drop_ins));
        assert!(found <= bound, "{drop_ins:?}: {found} tenths, at most {bound}");
        let stated = format!("{}.{}", bound / 10, bound % 10);
        assert!(
            text.contains(&stated),
            "docs/guides/install.md does not state {stated}"
        );
    }
}

#[test]
fn the_unit_leaves_the_jobs_alone_when_it_stops_or_restarts() {
    let unit = super::read("deploy/systemd/farmhand.service");
    let settings: Vec<&str> = unit.lines().filter(|l| !l.starts_with('#')).collect();
    for needed in [
        "Type=notify",
        "KillMode=process",
        "Delegate=yes",
        "OOMPolicy=continue",
        "Restart=always",
        "WatchdogSec=10s",
        "TasksMax=infinity",
    ] {
        assert!(settings.contains(&needed), "{needed} is missing");
    }
    // A new mount namespace for each agent would leave adopted jobs in another view than new ones.
    for setting in [
        "Private",
        "ReadOnly",
        "ReadWrite",
        "Inaccessible",
        "Protect",
        "NoNewPrivileges",
    ] {
        assert!(
            !settings.iter().any(|l| l.starts_with(setting)),
            "{setting}… holds for the jobs too"
        );
    }
}

#[test]
fn the_user_and_the_state_directory_are_made_as_shipped() {
    let root = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir_all(root.path().join("etc")).expect("a directory");
    let at = format!("--root={}", root.path().display());
    let file = |name: &str| {
        super::root()
            .join("deploy/systemd")
            .join(name)
            .display()
            .to_string()
    };
    systemd("systemd-sysusers", &[&at, &file("farmhand.sysusers")]);
    let users = fs::read_to_string(root.path().join("etc/passwd")).expect("users");
    let user = users
        .lines()
        .find(|l| l.starts_with("farmhand:"))
        .expect("the user");
    assert!(user.ends_with(":/nonexistent:/usr/sbin/nologin"), "{user}");
    systemd("systemd-tmpfiles", &["--create", &at, &file("farmhand.tmpfiles")]);
    use std::os::unix::fs::PermissionsExt;
    let state = fs::metadata(root.path().join("var/lib/farmhand")).expect("the state directory");
    assert_eq!(state.permissions().mode() & 0o7777, 0o711);
}
