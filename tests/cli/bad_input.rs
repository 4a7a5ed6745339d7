//! What is wrong is said clearly, with a fix, and with the right exit code.

use std::io::Write;

use farmhand_tests::pg::{Options, PrivateServer, TestDb};
use farmhand_tests::wait::eventually;

use super::farm::{Farm, command, ran};
use super::pty::Pty;

const AGENT: [&str; 3] = ["agent", "--listen", "off"];

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_of_the_job_files_is_shown_with_its_line_and_nothing_is_applied() {
    let farm = Farm::new().await;
    let a = farm.file(
        "a.toml",
        "[job.one]\ncomand = ['x']\ncommand = ['x']\nschedule = '0 25 * * *'\n\n[job.two]\ncommand = ['x']\ntimezone = 'Europe/Berlni'\n",
    );
    let b = farm.file("b.toml", "[job.two]\ncommand = ['x']\ntimeout = 90\n");
    let ran = farm.run(&["job", "apply", a.to_str().unwrap(), b.to_str().unwrap()]);
    ran.refused(
        2,
        &[
            "unknown key `comand`",
            "did you mean `command`?",
            "a.toml:2:1",
            "hour, column 3",
            "a.toml:4:15",
            "unknown time zone \"Europe/Berlni\"",
            "did you mean \"Europe/Berlin\"?",
            "job `two` is already defined in",
            "expected a duration, found an integer",
            "b.toml:3:11",
            "the job files have 5 mistakes",
            "Nothing was applied",
        ],
    );
    assert!(
        !ran.err.contains('\u{1b}'),
        "colours without a terminal: {}",
        ran.err
    );
    assert_eq!(
        farm.run(&["job", "ls", "--json"]).json()["items"],
        serde_json::json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_come_as_json_too() {
    let farm = Farm::new().await;
    let file = farm.file("a.toml", "[job.one]\ncomand = ['x']\ncommand = ['x']\n");
    let ran = farm.run(&["--json", "job", "apply", file.to_str().unwrap()]);
    assert_eq!(ran.code, 2);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["mistakes"][0]["line"], 2);
    assert_eq!(json["mistakes"][0]["column"], 1);
    assert_eq!(json["mistakes"][0]["what"], "unknown key `comand`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_list_is_refused() {
    let farm = Farm::new().await;
    let file = farm.file("a.toml", "[job.one]\ncommand = ['x']\nstream = {}\n");
    farm.run(&["job", "apply", file.to_str().unwrap()])
        .refused(2, &["`stream` has no list", "a.toml:3:1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_there_is_named() {
    let farm = Farm::new().await;
    farm.run(&["job", "apply", "/nowhere/a.toml", "/nowhere/b.toml"])
        .refused(
            2,
            &[
                "/nowhere/a.toml: No such file",
                "/nowhere/b.toml: No such file",
                "nothing was applied",
            ],
        );
}

#[test]
fn a_database_that_is_away_is_exit_code_5() {
    let home = tempfile::tempdir().unwrap();
    // Nothing listens on the port of a listener that is gone.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("postgresql://farm@127.0.0.1:{port}/farmhand");
    for args in [
        &["job", "ls"][..],
        &["migrate"],
        &["status"],
        &["run", "ls", "--json"],
    ] {
        ran(command(&url, home.path()).args(args)).refused(
            5,
            &[
                "the database is out of reach",
                "running jobs go on until the lease of their node ends",
                &format!("127.0.0.1:{port}"),
                "next:",
            ],
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_and_a_missing_password_are_exit_code_6() {
    let server = PrivateServer::start(Options::default()).await;
    let admin = farmhand_tests::pg::connect(&server.admin_url()).await;
    admin.exec("ALTER ROLE farm PASSWORD 'richtig'").await;
    let mut hba = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(server.data().join("pg_hba.conf"))
        .unwrap();
    hba.write_all(b"local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        .unwrap();
    admin.exec("SELECT pg_reload_conf()").await;
    let home = tempfile::tempdir().unwrap();
    let url = |user: &str| format!("postgresql://{user}@127.0.0.1:{}/farmhand", server.port());
    eventually("the new rules", std::time::Duration::from_secs(10), || {
        let ran = ran(command(&url("farm:falsch"), home.path()).args(["job", "ls"]));
        if ran.code == 6 { Ok(()) } else { Err(ran.err) }
    });

    for args in [&["job", "ls"][..], &AGENT] {
        let wrong = ran(command(&url("farm:falsch"), home.path()).args(args));
        wrong.refused(
            6,
            &["denies access", "password authentication failed", "PGPASSFILE"],
        );
        assert!(
            !wrong.err.contains("falsch"),
            "the password is repeated: {wrong:?}"
        );
    }
    ran(command(&url("farm"), home.path()).args(["job", "ls"])).refused(6, &["none was given"]);
    ran(command(&url("farm:richtig"), home.path()).args(["job", "ls"])).ok();

    let farm = Farm::new().await;
    for args in [&["job", "ls"][..], &["migrate"]] {
        let url = url("farm");
        let mut terminal = Pty::start(&farm, 80, &[args, &["--database-url", &url]].concat());
        eventually("it asks", std::time::Duration::from_secs(20), || {
            let seen = terminal.look();
            let asked = seen.contains("Password for").then_some(());
            asked.ok_or(seen)
        });
        terminal.press("richtig\n");
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(0), "{args:?}: {seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_denied_something_is_told_the_role_that_they_lack_and_no_other() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = ['true']\n");
    let url = farm.db.url_as("farm_viewer");
    let state = farm.dir.path().join("state");
    let agent = ["agent", "--listen", "off", "--state-dir", state.to_str().unwrap()];
    for (args, role) in [
        (&["job", "pause", "a"][..], "GRANT farmhand_operator TO the login"),
        (
            &["lock", "a", "--", "true"],
            "GRANT farmhand_submitter TO the login",
        ),
        (&agent, "GRANT farmhand_agent TO the login"),
    ] {
        let ran = ran(command(&url, farm.dir.path()).args(args));
        ran.refused(6, &["the database denies this to this login", role]);
        assert_eq!(ran.err.matches("GRANT").count(), 1, "{}", ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_no_writes_by_a_setting_is_not_called_a_standby() {
    let farm = Farm::new().await;
    let sql = farm.db.client().await;
    let name = "SELECT quote_ident(current_database())";
    let name: String = sql.value(name).await;
    let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    sql.exec(&set).await;
    let ran = farm.run(&["status"]);
    ran.refused(5, &["takes no writes", "reset default_transaction_read_only"]);
    assert!(!ran.err.contains("promote"), "{}", ran.err);
}

#[test]
fn a_password_on_the_command_line_is_refused_and_not_repeated() {
    let home = tempfile::tempdir().unwrap();
    for args in [&["job", "ls"][..], &["agent"], &["migrate"]] {
        let ran = ran(command("postgresql:///x", home.path())
            .args(args)
            .args(["--database-url", "postgresql://farm:geheim@127.0.0.1/farmhand"]));
        ran.refused(2, &["FARMHAND_DATABASE_URL", "PGPASSFILE"]);
        assert!(!ran.err.contains("geheim"), "{}", ran.err);
    }
}

#[test]
fn no_database_named_is_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    let mut command = command("", home.path());
    command.env_remove("FARMHAND_DATABASE_URL");
    ran(command.args(["job", "ls"])).refused(2, &["set FARMHAND_DATABASE_URL"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_newer_than_the_binary_is_refused() {
    let farm = Farm::new().await;
    let client = farm.db.client().await;
    client
        .exec("INSERT INTO farmhand.schema_version (version, name, checksum) VALUES (9999, 'later', 'x')")
        .await;
    for args in [&["job", "ls"][..], &["migrate"], &AGENT] {
        farm.run(args).refused(4, &["newer version", "9999", "install"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_schema_says_migrate_and_migrate_helps() {
    let farm = Farm::of(TestDb::empty().await);
    for args in [&["job", "ls"][..], &AGENT] {
        farm.run(args).refused(4, &["run `farmhand migrate`"]);
    }
    let first = farm.run(&["migrate", "--json"]).json();
    assert_eq!(first[0]["version"], 1);
    assert_eq!(farm.run(&["migrate", "--json"]).json(), serde_json::json!([]));
    farm.run(&["job", "ls"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_are_exit_code_3() {
    let farm = Farm::new().await;
    for (args, said) in [
        (&["job", "show", "nix"][..], "no job nix"),
        (&["job", "run", "nix"], "no job nix"),
        (&["job", "pause", "nix"], "no job nix"),
        (&["job", "resume", "nix"], "no job nix"),
        (&["job", "history", "nix"], "no job nix"),
        (&["run", "show", "77"], "no run 77"),
        (&["run", "logs", "77"], "no run 77"),
        (&["run", "cancel", "77"], "no run 77"),
        (&["run", "retry", "77"], "no run 77"),
        (&["node", "show", "nix"], "address nix"),
        (&["node", "drain", "nix"], "address nix"),
        (
            &["lease", "release", "nix", "--force", "--confirm", "nix"],
            "address nix",
        ),
    ] {
        farm.run(args).refused(3, &[said]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_parameters_are_all_named_before_anything_is_submitted() {
    let farm = Farm::new().await;
    farm.apply(
        "[job.p]\ncommand = ['echo', '{n}']\nparams = { n = { type = 'integer', required = true }, d = { type = 'date' } }\n",
    );
    farm.run(&["job", "run", "p", "-p", "nn=1", "-p", "d=tomorrow"])
        .refused(
            2,
            &[
                "did you mean `n`?",
                "`n` has no value",
                "expected a date",
                "its parameters are d, n",
            ],
        );
    farm.run(&["job", "run", "p", "-p", "n"])
        .refused(2, &["NAME=VALUE"]);
    assert_eq!(
        farm.run(&["run", "ls", "--json"]).json()["items"],
        serde_json::json!([])
    );
}
