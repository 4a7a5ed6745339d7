//! How long a run took is how long its command ran, whenever its end was written down.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::pg::{Options, PrivateServer};
use farmhand_tests::witness::boot_ns;
use serde_json::Value;

/// Longer than a busy machine needs to start a command and to see its end.
const AWAY: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ended_while_the_database_was_away_took_as_long_as_its_command() {
    let mut farm = Farm::new()
        .agents(1)
        .ttl(Duration::from_secs(60))
        .on(PrivateServer::start(Options::default()).await)
        .jobs("[job.until]\ncommand = \"while ! test -e '@DIR@/go'; do sleep 0.05; done\"")
        .start()
        .await;
    let run = farm.submit("until").await;
    farm.eventually("the command runs", SOON, async || {
        match (farm.run(run).await.state, farm.processes_of_run(run).len()) {
            (state, 1..) if state == "running" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let seen = boot_ns();
    farm.database.server().stop();
    std::fs::write(farm.dir().join("go"), "").expect("the command may end");
    let wait = async |what: &str, is: &dyn Fn() -> bool| {
        farm.eventually(what, SOON, async || is().then_some(()).ok_or_else(String::new))
            .await;
    };
    wait("the command has ended", &|| farm.processes_of_run(run).is_empty()).await;
    let ended = boot_ns();
    wait("the database is away for long", &|| {
        Duration::from_nanos(boot_ns() - ended) > AWAY
    })
    .await;
    // An end that is counted until it was written down lasts longer than this.
    let back = (boot_ns() - seen) / 1_000_000;
    farm.database.server().restart(None);
    farm.sql = farm.database.client().await;
    farm.succeeds(run).await;

    let until: i64 = farm
        .value("SELECT (date_part('epoch', finished_at - started_at) * 1000)::bigint FROM farmhand.run")
        .await;
    assert!(
        until.unsigned_abs() > back,
        "{until} ms: it was written down late"
    );
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&farm.ok(arguments)).expect("JSON") };
    let shown = json(&["run", "show", &run.to_string(), "--json"]);
    let ran = shown["run"]["ran_ms"].as_u64().expect("how long it ran");
    assert!(ran < back, "{ran} ms, and the database was back after {back} ms");
    assert_eq!(shown["attempts"][0]["ran_ms"], ran);
    assert_eq!(json(&["run", "ls", "--json"])["items"][0]["ran_ms"], ran);
    farm.check().await;
}
