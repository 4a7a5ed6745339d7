//! Passwords that are replaced while agents run, as those of a vault and tokens of a cloud are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::pg::{Options, PrivateServer};

const JOB: &str = "
    [job.tick]
    schedule = '* * * * * *'
    command = 'true'
";

/// A server that asks the agents' login `keeper` for its password.
async fn server() -> PrivateServer {
    let server = PrivateServer::start(Options::default()).await;
    let hba =
        "local all all trust\nhost all keeper 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    fs::write(server.data().join("pg_hba.conf"), hba).expect("pg_hba.conf");
    let made = "CREATE ROLE keeper LOGIN PASSWORD 'first' IN ROLE farmhand_agent";
    server.admin().await.exec(made).await;
    server.reload().await;
    server
}

pub(crate) fn keep(path: &Path, password: &str) {
    let new = path.with_extension("new");
    fs::write(&new, password).expect("a file");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("its mode");
    fs::rename(&new, path).expect("a file");
}

/// Replaces the password each second and ends all connections, so that every one is made anew with the new one.
async fn rotates(farm: &Farm, file: &Path) {
    let session = "SELECT session FROM farmhand.node WHERE address = 'n1'";
    let before: i64 = farm.value(session).await;
    let admin = farm.database.admin().await;
    for round in 0..6 {
        let password = format!("password-{round}");
        let replace = format!("ALTER ROLE keeper PASSWORD '{password}'");
        admin.exec(&replace).await;
        keep(file, &password);
        let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'";
        admin.query(ends, &[]).await.expect("ends");
        tokio::time::sleep(Duration::from_secs(1)).await;
        farm.eventually("the agent is connected again", SOON, async || {
            let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'keeper'";
            let row = admin.query_one(count, &[]).await.expect("a count");
            let now: i64 = row.get(0);
            (now > 0).then_some(()).ok_or_else(|| format!("round {round}"))
        })
        .await;
    }
    let done = "SELECT count(*) FROM farmhand.run WHERE state = 'succeeded'";
    let so_far: i64 = farm.value(done).await;
    farm.eventually("runs go on", SOON, async || {
        let now: i64 = farm.value(done).await;
        (now > so_far).then_some(()).ok_or_else(|| now.to_string())
    })
    .await;
    assert_eq!(farm.value::<i64>(session).await, before, "the session goes on");
    let log = farm.agents[0].log();
    assert!(!log.contains("password-"), "{log}");
}

async fn farm(arguments: &[&str], settings: &[(&str, String)]) -> Farm {
    let server = server().await;
    let url = format!("postgresql://keeper@127.0.0.1:{}/farmhand", server.port());
    let mut farm = Farm::new()
        .on(server)
        .ttl(Duration::from_secs(15))
        .policy("users = ['*']\ndefault_user = 'nobody'\n")
        .arguments(arguments)
        .jobs(JOB)
        .prepare()
        .await;
    let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
    farm.agents[0].env.extend(settings);
    farm.agents[0].env.push(("FARMHAND_DATABASE_URL".to_owned(), url));
    farm.start_agents().await;
    farm
}

#[tokio::test(flavor = "multi_thread")]
async fn a_farm_goes_on_while_what_the_password_command_prints_changes_every_second() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    keep(&file, "first");
    let command = format!("test \"$PGUSER\" = keeper && cat {}", file.display());
    let farm = farm(&[], &[("FARMHAND_DATABASE_PASSWORD_COMMAND", command)]).await;
    rotates(&farm, &file).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_rights_reads_the_password_that_only_root_can_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("password");
    keep(&file, "first");
    let setting = ("FARMHAND_DATABASE_PASSWORD_FILE", file.display().to_string());
    let farm = farm(&["--user", "www-data"], &[setting]).await;
    rotates(&farm, &file).await;
    farm.check().await;
}
