//! Behind PgBouncer in transaction mode.

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::outside::Pooler;
use farmhand_tests::pg::TestDb;

#[tokio::test(flavor = "multi_thread")]
async fn a_farm_works_behind_a_transaction_pooler() {
    let db = TestDb::new().await;
    let pooler = Pooler::start(([127, 0, 0, 1], db.port()).into(), &[("default_pool_size", "4")]);
    let url = db
        .tcp_url()
        .replace(&format!(":{}/", db.port()), &format!(":{}/", pooler.port()));
    let mut farm = Farm::new()
        .agents(2)
        .on(db)
        .url(&url)
        .arguments(&["--notify", "off"])
        .jobs(
            "[job.long]\ncommand = [WITNESS, '2500']\n
             [job.flaky]\nretry = { max = 1, base = '100ms' }\ncommand = [WITNESS, '50', 'exit=1']\n
             [job.tick]\nschedule = '* * * * * *'\ncommand = [WITNESS, '50', 'say=2']\n",
        )
        .start()
        .await;
    let tick = farm.first_run("tick").await;
    farm.succeeds(tick.run_id).await;
    assert_eq!(farm.output(tick.run_id, 1).await, "line 1\nline 2\n");
    let flaky = farm.submit("flaky").await;
    assert_eq!(farm.over(flaky, SOON).await.attempt, 2);
    let long = farm.submit("long").await;
    let home = farm.lives(long, 1).await.running_at.expect("a node");
    farm.agent(&home).kill_with_wardens();
    assert_eq!(farm.succeeds(long).await.attempt, 2);
    farm.check().await;
    let mut doctor = farm.command(&["doctor", "--json", "--state-dir"]);
    let told = doctor.arg(farm.dir()).env("FARMHAND_DATABASE_URL", &url).output();
    let told: serde_json::Value = serde_json::from_slice(&told.expect("doctor").stdout).expect("JSON");
    let mut checks = told["checks"].as_array().expect("a list").iter();
    let told_of = checks.find(|c| c["check"] == "pooler").expect("a word about it");
    let (found, fix) = (told_of["found"].to_string(), told_of["fix"].to_string());
    assert!(
        found.contains("transaction mode") && fix.contains("--notify off"),
        "{told_of}"
    );
    drop(farm);
    drop(pooler);
}
