//! Rules of cron that a job does not have.

use farmhand_import::Import;
use farmhand_import::crontab::Owner;

use super::crontab::{file, imported, one, specs};

/// On the farm it is ended with the command that began it.
#[test]
fn what_a_line_puts_into_the_background_is_told() {
    let told = |text: &str| {
        let (import, _) = one(text, Owner::User(None));
        let notes = import.files[0].notes.iter();
        notes
            .filter(|note| note.text.contains("in the background"))
            .count()
    };
    for command in [
        "/opt/app/sync &> /dev/null",
        "/opt/app/one & /opt/app/two",
        "(/opt/app/long &)",
        "nohup /opt/app/long >/dev/null 2>&1 & echo $! > /run/app.pid",
        "pgrep -x appd || { /opt/app/appd & echo started; }",
        "cd /opt/app && nohup ./long",
        "setsid /opt/app/long",
        "sudo -n /usr/bin/setsid /opt/app/long",
        "screen -dmS app /opt/app/long",
        "tmux new-session -d /opt/app/long",
        "tmux new -d -s app /opt/app/long",
        "service app start",
        "/usr/sbin/service app restart",
        "start-stop-daemon --start --exec /opt/app/appd",
    ] {
        assert_eq!(told(&format!("*/5 * * * * {command}\n")), 1, "{command}");
    }
    for command in [
        "/opt/app/sync > /dev/null 2>&1",
        "/opt/app/one && /opt/app/two",
        "echo 'one & two'",
        "echo one \\& two",
        "wget -q http://localhost/?a=1\\&b=2",
        "/opt/app/nohup-report --service app start",
        "service app status",
        "screen -ls",
        "tmux new",
    ] {
        assert_eq!(told(&format!("*/5 * * * * {command}\n")), 0, "{command}");
    }
    // Both streams to a file, and no background.
    assert_eq!(
        told("SHELL=/bin/bash\n*/5 * * * * /opt/app/sync &> /dev/null\n"),
        0
    );
}

/// `crontab -n` of Debian 12 takes and refuses the same.
#[test]
fn what_cron_refuses_is_told() {
    let told = |import: &Import, part: &str| {
        let notes = import.files[0].notes.iter();
        notes.filter(|note| note.text.contains(part)).count()
    };
    let counts = |schedule: &str| {
        let (import, spec) = one(&format!("{schedule} true\n"), Owner::User(None));
        let read = import.jobs[0].expression().map(str::to_owned);
        let notes = ["cron refuses this line", "Debian's cron ignores all of a file"];
        (
            spec.schedule[0].clone(),
            read,
            notes.map(|part| told(&import, part)),
        )
    };
    for schedule in [
        "0/15 * * * *",
        "5/10 * * * *",
        "0 0 L * *",
        "0 0 1,15W * *",
        "0 0 LB * *",
        "H 3 * * *",
        "0 0 ? * *",
        "0 0 13 * +FRI",
        "0 0 * * FRIL",
        "@Daily",
        "@REBOOT",
    ] {
        assert_eq!(counts(schedule), (schedule.to_owned(), None, [1, 1]));
    }
    for schedule in [
        "*/5 1-4/2 * JAN-MAR,12 mon,5-7",
        "007 0 1,15 * 7",
        "@daily",
        "@reboot",
        "@every_minute",
    ] {
        let wanted = schedule.replace("@every_minute", "* * * * *");
        assert_eq!(counts(schedule), (wanted.clone(), Some(wanted), [0, 0]));
    }
    let (import, spec) = one("0 0 * * MON#1,3 true\n", Owner::User(None));
    assert_eq!(
        (spec.schedule[0].as_str(), import.jobs[0].expression()),
        ("0 0 * * MON", Some("0 0 * * MON"))
    );
    assert_eq!(
        told(&import, "cron reads no further than the `#`"),
        1,
        "{:?}",
        import.files
    );
    for (schedule, times) in [
        ("0 0 * * SAT-SUN", 1),
        ("0 0 * NOV-FEB *", 1),
        ("0 0 * * 1,6-0", 1),
        ("0 0 * * FRI-SUN/2", 1),
        ("0 0 * * SUN-SAT", 0),
    ] {
        let (import, _) = one(&format!("{schedule} true\n"), Owner::User(None));
        assert_eq!(told(&import, "goes round"), times, "{schedule}");
    }
    let text = "@continuous x\n61 * * * * y\n0 1 * * * z\n";
    let import = imported(&[file("-", text, Owner::User(None))]);
    assert_eq!((import.files[0].invalid.len(), specs(&import).len()), (2, 1));
    assert_eq!(told(&import, "Debian's cron ignores all of a file"), 1);
}

/// glibc reads what is no name as the rules of POSIX.
#[test]
fn a_zone_that_is_no_name_means_what_it_says() {
    for (written, wanted, said) in [
        ("JST-9", "Etc/GMT-9", ""),
        ("UTC-5", "Etc/GMT-5", ""),
        ("<-03>3", "Etc/GMT+3", ""),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "Europe/Berlin", "has no name"),
        ("XYZ-1XYS", "Europe/Berlin", "has no name"),
        ("XYZ-5:30", "Europe/Berlin", "has no name"),
        ("Nowhere", "UTC", "cron then uses UTC"),
    ] {
        let (import, spec) = one(&format!("CRON_TZ={written}\n0 1 * * * a\n"), Owner::User(None));
        assert_eq!(spec.timezone, wanted, "{written}");
        let mut notes = import.files[0]
            .notes
            .iter()
            .filter(|note| note.text.starts_with(&format!("CRON_TZ={written}")));
        assert_eq!(
            notes.next().is_some_and(|note| note.text.contains(said)),
            !said.is_empty(),
            "{written}"
        );
    }
}
