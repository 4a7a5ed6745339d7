//! What crontabs do beside running commands: mail, locks, output, passwords.

use farmhand_import::Import;
use farmhand_import::crontab::Owner;

use super::crontab::{file, imported, one, shell, specs};

fn texts(import: &Import) -> Vec<&str> {
    import.files[0]
        .notes
        .iter()
        .map(|note| note.text.as_str())
        .collect()
}

#[test]
fn mail_addresses_become_targets_and_other_mailboxes_are_told() {
    let text = "MAILTO=a@example.com, b@example.com\n0 1 * * * one\nMAILTO=root\n0 2 * * * two\nMAILTO=c@example.com\n\
                0 3 * * * three\nMAILTO=\"\"\n0 4 * * * four\n";
    let other = "MAILTO=a@example.com,b@example.com\n0 5 * * * five\n";
    let import = imported(&[
        file("-", text, Owner::User(None)),
        file("other", other, Owner::User(None)),
    ]);
    let specs = specs(&import);
    let notify = |name: &str| {
        specs
            .iter()
            .find(|(job, _)| job == name)
            .unwrap()
            .1
            .notify
            .clone()
    };
    assert_eq!(notify("one"), ["cron-mail"]);
    assert_eq!(notify("other-five"), ["cron-mail"], "the same people");
    assert_eq!(notify("three"), ["cron-mail-2"]);
    assert!(notify("two").is_empty() && notify("four").is_empty());
    assert!(
        import
            .toml
            .contains("email    = [\"a@example.com\", \"b@example.com\"]"),
        "{}",
        import.toml
    );
    assert!(
        texts(&import)
            .iter()
            .any(|text| text.starts_with("MAILTO=root: no mail is sent to it"))
    );
}

#[test]
fn what_a_line_does_beside_its_command_is_taken_off_or_told() {
    let (import, spec) = one("@reboot /usr/bin/daemon --x &\n", Owner::User(None));
    assert_eq!(shell(&spec), "/usr/bin/daemon --x");
    assert!(
        texts(&import)
            .iter()
            .any(|text| text.contains("the `&` at the end is left out"))
    );
    let (import, spec) = one(
        "0 1 * * * backup >> /var/log/backup.log 2>&1\n",
        Owner::User(None),
    );
    assert_eq!(shell(&spec), "backup >> /var/log/backup.log 2>&1");
    assert!(
        texts(&import)
            .iter()
            .any(|text| text.contains("output goes to /var/log/backup.log"))
    );
    for (line, rule) in [("flock -n", "skip"), ("/usr/bin/flock", "queue")] {
        let (import, spec) = one(
            &format!("0 1 * * * {line} /tmp/lock backup --all\n"),
            Owner::User(None),
        );
        assert_eq!(shell(&spec), "backup --all");
        assert_eq!(import.jobs[0].name, "backup");
        assert_eq!(serde_json::to_value(spec.overlap).unwrap(), rule);
        let told = |part: &str| texts(&import).iter().any(|text| text.contains(part));
        assert!(told("`flock` of /tmp/lock became") && told("a line that stays with cron"));
    }
    let two = "0 1 * * * flock -n /tmp/lock a\n0 2 * * * flock -n /tmp/lock b\n";
    let import = imported(&[file("-", two, Owner::User(None))]);
    assert!(
        specs(&import)
            .iter()
            .all(|(_, spec)| shell(spec).starts_with("flock -n /tmp/lock"))
    );
    assert_eq!(
        texts(&import)
            .iter()
            .filter(|text| text.contains("other lines name /tmp/lock too"))
            .count(),
        2
    );
}

#[test]
fn a_lock_that_another_line_takes_in_any_way_is_left_to_flock() {
    for other in [
        "flock -w 600 /tmp/lock full",
        "cd /srv && flock -n /tmp/lock full",
        "nice flock '/tmp/lock' full",
        "( flock -n 9; full ) 9>/tmp/lock",
    ] {
        let text = format!("*/5 * * * * flock -n /tmp/lock fast\n0 3 * * * {other}\n");
        let import = imported(&[file("-", &text, Owner::User(None))]);
        let specs = specs(&import);
        let mut commands = specs.iter().map(|(_, spec)| shell(spec));
        assert!(
            commands.any(|command| command == "flock -n /tmp/lock fast"),
            "{}",
            import.toml
        );
        let told = |part: &str| texts(&import).iter().any(|text| text.contains(part));
        assert!(
            told("other lines name /tmp/lock too") && !told("became overlap"),
            "{other}"
        );
    }
    let text = "0 1 * * * flock -n /tmp/lock a\n0 2 * * * rm /tmp/lock.old /srv/tmp/lock\n";
    let import = imported(&[file("-", text, Owner::User(None))]);
    let mut said = texts(&import).into_iter();
    assert!(
        said.any(|text| text.contains("became overlap")),
        "{}",
        import.toml
    );
}

#[test]
fn variables_that_look_like_passwords_are_told() {
    for (line, secret) in [
        ("DB_PASSWORD=geheim", true),
        ("api_token=abc", true),
        ("MYSQL_PWD=geheim", true),
        ("OLDPWD=/srv", false),
        (
            "AWS_SECRET_ACCESS_KEY=/K7MDENGbPxRfiCYwJalrXUtnFEMI/EXAMPLEKEY",
            true,
        ),
        ("API_TOKEN=/etc/app/secrets/TokenOfService1.txt", false),
        ("URL=postgresql://me:geheim@db/x", true),
        ("URL=postgresql://me@db/x?a=b:c@d", false),
        ("PASSWORD_FILE=/etc/pw", false),
        ("DB_SECRET_NAME=shop-database", false),
        ("TOKEN_FILE=app.token", false),
        ("SECRET=", false),
        ("LANG=C", false),
    ] {
        let (import, _) = one(&format!("{line}\n0 1 * * * x\n"), Owner::User(None));
        assert_eq!(import.secret || !import.secrets.is_empty(), secret, "{line}");
        assert_eq!(
            texts(&import)
                .iter()
                .any(|text| text.contains("looks like a secret")),
            secret,
            "{line}"
        );
        assert!(
            texts(&import).iter().all(|text| !text.contains("geheim")),
            "{line}"
        );
    }
}

#[test]
fn a_command_with_a_password_is_told() {
    for (command, secret) in [
        ("PGPASSWORD=geheim pg_dump shop", true),
        ("sh -c 'PGPASSWORD=geheim pg_dump shop'", true),
        ("PGPASSWORD=\"geheim und mehr\" pg_dump shop", true),
        ("mysqldump --password='geheim' shop", true),
        ("curl https://me:geheim@example.com/ping", true),
        ("PGPASSWORD=$(cat /etc/pw) pg_dump shop", false),
        ("PGPASSWORD=\"$PW\" pg_dump shop", false),
        ("mysqldump --password-file=/etc/pw shop", false),
        ("curl https://example.com/?a=b@c", false),
    ] {
        for shell in ["", "SHELL=/bin/bash\n"] {
            let (import, _) = one(&format!("{shell}0 1 * * * {command}\n"), Owner::User(None));
            assert_eq!(import.secret, secret, "{command}");
            let mut texts = texts(&import).into_iter();
            let told = texts.any(|text| text.contains("its command holds what looks like a password"));
            assert_eq!(told, secret, "{command}");
        }
    }
}

#[test]
fn a_crontab_of_nobody_known_is_told_once_for_its_file() {
    let text = "HOME=/srv\n0 1 * * * a\n0 2 * * * b\n";
    let told = |owner: Owner, text: &str| {
        let import = imported(&[file("mine", text, owner)]);
        let found = texts(&import)
            .iter()
            .filter(|text| text.contains("no user is known"))
            .count();
        (found, import.toml.matches("--user NAME says whose").count())
    };
    assert_eq!(told(Owner::User(None), text), (1, 1));
    assert_eq!(told(Owner::User(Some("deploy".to_owned())), text), (0, 0));
    assert_eq!(told(Owner::User(None), "# nothing\n"), (0, 0));
}

#[test]
fn what_only_cronie_heeds_is_told() {
    let text = "CRON_TZ=UTC\n0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * b\nRANDOM_DELAY=5\n0 1 * * * c\n";
    let (import, wanted) = (
        imported(&[file("mine", text, Owner::User(None))]),
        "Only cronie heeds it",
    );
    let mut found = Vec::new();
    for note in import.files[0]
        .notes
        .iter()
        .filter(|note| note.text.contains(wanted))
    {
        found.push((note.line, note.text.split(' ').next().unwrap()));
    }
    assert_eq!(found, [(1, "CRON_TZ"), (5, "RANDOM_DELAY")]);
}

#[test]
fn the_hint_about_the_directory_is_one_for_all_jobs_of_a_user() {
    let text = "0 1 * * * nix a\n0 2 * * * nix b\n0 3 * * * root c\n0 4 * * * nox d\n";
    let import = imported(&[file("/etc/crontab", text, Owner::System)]);
    let hints: Vec<(usize, &str)> = (import.files[0].notes.iter())
        .map(|note| (note.line, note.text.as_str()))
        .collect();
    assert_eq!(
        hints,
        [
            (
                0,
                "cron starts a job in the home of nix, who is unknown on this machine: set `cwd`: a, b"
            ),
            (
                0,
                "cron starts a job in the home of nox, who is unknown on this machine: set `cwd`: d"
            ),
        ]
    );
}
