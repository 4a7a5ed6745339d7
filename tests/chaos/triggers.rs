//! Jobs that follow others over a farm whose nodes are killed.

use farmhand_tests::farm::{Farm, SOON};

const JOBS: &str = r#"
[job.bad]
command = [WITNESS, '2500', 'exit=3']

[job.alarm]
command = 'echo follows $FARMHAND_PARENT_RUN'
triggered_by = 'bad'
trigger_on = 'failure'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_agent_died_before_it_could_follow_is_followed_by_another() {
    let mut farm = Farm::new().agents(2).jobs(JOBS).start().await;
    let bad = farm.submit("bad").await;
    let home = farm.lives(bad, 1).await.running_at.expect("a node");
    // Held, so that the end is written down and cannot be followed.
    let locker = farm.database.client().await;
    locker
        .exec("BEGIN; SELECT FROM farmhand.job WHERE job_id = 'alarm' FOR UPDATE")
        .await;
    farm.over(bad, SOON).await;
    assert!(farm.runs("alarm").await.is_empty());
    farm.agent(&home).kill_with_wardens();
    locker.exec("COMMIT").await;
    let alarm = farm.first_run("alarm").await;
    farm.succeeds(alarm.run_id).await;
    assert_eq!(farm.runs("alarm").await.len(), 1);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_triggers_works() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../deploy/examples/triggered-report.toml"
    );
    let text = std::fs::read_to_string(path).expect("the example");
    let farm = Farm::new()
        .agents(2)
        .jobs(&text.replace("schedule = \"@hourly\"\n", ""))
        .start()
        .await;
    let (price, stock) = (
        farm.submit("price-import").await,
        farm.submit("stock-import").await,
    );
    let report = farm.first_run("price-report").await;
    let report = farm.succeeds(report.run_id).await;
    let said = farm.output(report.run_id, 1).await;
    assert!(said.starts_with("report on all as of "), "{said}");
    assert!(
        said.contains(&price.to_string()) && said.contains(&stock.to_string()),
        "{said}"
    );
    assert!(farm.runs("price-alarm").await.is_empty());
    farm.check().await;
}
