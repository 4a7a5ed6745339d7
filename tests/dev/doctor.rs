//! `farmhand doctor` against real servers, good and bad ones.

use std::process::Command;

use farmhand_tests::bin::farmhand;
use farmhand_tests::pg::{Options, PrivateServer, TestDb, url_of};
use serde_json::Value;

/// What it found: exit code, and each check by its name.
struct Report {
    code: i32,
    json: Value,
}

impl Report {
    fn check(&self, name: &str) -> &Value {
        let checks = self.json["checks"].as_array().expect("a list of checks");
        checks
            .iter()
            .find(|check| check["check"] == name)
            .unwrap_or_else(|| panic!("no {name} in {}", self.json))
    }

    fn found(&self, name: &str) -> &str {
        self.check(name)["found"].as_str().expect("what was found")
    }

    fn level(&self, name: &str) -> &str {
        self.check(name)["level"].as_str().expect("a level")
    }
}

/// As in production, and not as tests are in a hurry.
fn durable() -> Options {
    let settings =
        ["fsync", "full_page_writes", "synchronous_commit"].map(|name| (name.to_owned(), "on".to_owned()));
    Options {
        settings: settings.into(),
        ..Options::default()
    }
}

fn doctor(url: &str) -> Report {
    let state = tempfile::tempdir().unwrap();
    let out = Command::new(farmhand())
        .args(["doctor", "--json", "--state-dir"])
        .arg(state.path())
        .env("FARMHAND_DATABASE_URL", url)
        .output()
        .unwrap();
    let json = serde_json::from_slice(&out.stdout);
    let json = json.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    let left: Vec<_> = std::fs::read_dir(state.path()).unwrap().collect();
    assert!(left.is_empty(), "it leaves nothing behind: {left:?}");
    Report {
        code: out.status.code().unwrap(),
        json,
    }
}

#[tokio::test]
async fn a_migrated_database_on_this_machine_is_good_enough() {
    let server = PrivateServer::start(durable()).await;
    drop(server.db().await);
    let report = doctor(&server.url());
    for good in [
        "kernel fence",
        "database",
        "version",
        "synchronous commit",
        "schema",
        "epoch",
        "clock",
        "pooler",
    ] {
        assert_eq!(report.level(good), "ok", "{}", report.check(good));
    }
    assert_eq!(report.level("standby"), "note");
}

#[tokio::test]
async fn a_server_that_forgets_commits_is_refused() {
    let mut options = durable();
    options
        .settings
        .push(("synchronous_commit".to_owned(), "off".to_owned()));
    let server = PrivateServer::start(options).await;
    let report = doctor(&server.url());
    assert_eq!(report.level("synchronous commit"), "failure");
    assert!(
        report.check("synchronous commit")["impact"]
            .as_str()
            .unwrap()
            .contains("twice")
    );
    assert_eq!(report.json["worst"], "failure");
    assert_eq!(report.code, 1);
}

#[tokio::test]
async fn doctor_tells_what_a_failover_would_lose_and_which_server_is_which() {
    let mut primary = PrivateServer::start(durable()).await;
    let standby = primary.replica("s1").await;
    let both = url_of(&[&primary, &standby]);
    let report = doctor(&both);
    assert_eq!(report.level("standby"), "warning", "{}", report.check("standby"));
    assert!(report.found("standby").contains("1 asynchronous"));
    assert_eq!(report.level("servers"), "ok", "{}", report.check("servers"));
    assert!(report.found("servers").contains("is the primary"));
    assert!(report.found("servers").contains("is a standby"));

    primary.wait_for_replica("s1").await;
    // A role without this may not see which of them are synchronous.
    let admin = primary.admin().await;
    let may = |verb: &str, word: &str| format!("{verb} pg_read_all_stats {word} farm_agent");
    admin.exec(&may("REVOKE", "FROM")).await;
    assert_eq!(doctor(&both).level("standby"), "note");
    admin.exec(&may("GRANT", "TO")).await;
    let report = doctor(&both);
    assert_eq!(report.level("standby"), "ok", "{}", report.check("standby"));
    assert_eq!(report.level("standby lag"), "ok");
    // Without the standby's name the agents would stay with the old one.
    assert_eq!(doctor(&primary.tcp_url()).level("servers"), "note");

    let report = doctor(&standby.tcp_url());
    assert_eq!(report.code, 5);
    assert!(
        report.check("database")["fix"]
            .as_str()
            .unwrap()
            .contains("no writes")
    );

    primary.kill();
    let report = doctor(&both);
    assert_eq!(report.code, 5);
    assert_eq!(report.level("servers"), "failure");
    assert!(
        report.check("servers")["fix"]
            .as_str()
            .unwrap()
            .contains("pg_promote")
    );
    standby.promote().await;
    let report = doctor(&both);
    assert_eq!(
        (report.level("database"), report.level("servers")),
        ("ok", "warning")
    );
    assert_eq!(report.level("epoch"), "warning", "no agent has opened it");
    // What must not be: the old primary comes back as one.
    primary.restart(None);
    assert_eq!(doctor(&both).level("servers"), "failure");
}

#[tokio::test]
async fn a_transaction_that_holds_dead_rows_is_named() {
    let server = PrivateServer::start(durable()).await;
    let admin = server.admin().await;
    admin
        .exec("SET application_name = 'forgotten'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        .await;
    let report = doctor(&server.url());
    let found = report.check("old snapshots")["found"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(found.contains("forgotten"), "{found}");
    assert_eq!(report.level("old snapshots"), "ok", "young ones do no harm");
}

#[tokio::test]
async fn a_database_without_the_schema_is_told_to_migrate() {
    let db = TestDb::empty().await;
    let report = doctor(&db.url());
    assert_eq!(report.level("schema"), "failure");
    assert!(
        report.check("schema")["fix"]
            .as_str()
            .unwrap()
            .contains("farmhand migrate")
    );
    assert_eq!(report.code, 1);
}

#[test]
fn a_database_out_of_reach_still_lets_the_machine_be_judged() {
    let report = doctor("postgresql://farmhand@127.0.0.1:1/farmhand");
    assert_eq!(report.code, 5);
    assert_eq!(report.level("database"), "failure");
    assert_eq!(report.level("kernel fence"), "ok");
}

#[test]
fn doctor_checks_the_state_directory_that_the_environment_names() {
    let state = tempfile::tempdir().unwrap();
    let out = Command::new(farmhand())
        .args(["doctor", "--json"])
        .env("FARMHAND_STATE_DIR", state.path())
        .env(
            "FARMHAND_DATABASE_URL",
            "postgresql://127.0.0.1:1/none?sslmode=disable",
        )
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains(state.path().to_str().unwrap()), "{said}");
}
