//! Jobs that follow others over a farm whose nodes are killed.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};

const JOBS: &str = r#"
[job.import]
command = [WITNESS, '10000']

[job.check]
command = [WITNESS, '300']

[job.report]
command = [WITNESS, '100']
triggered_by = ['import', 'check']

[job.bad]
command = [WITNESS, '2500', 'exit=3']

[job.alarm]
command = 'echo follows $FARMHAND_PARENT_RUN'
triggered_by = 'bad'
trigger_on = 'failure'

[job.never]
command = 'true'
triggered_by = 'bad'

[job.always]
command = 'true'
triggered_by = 'bad'
trigger_on = 'finish'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn children_follow_parents_whose_holder_is_killed_in_the_middle_each_once() {
    let mut farm = Farm::new().agents(3).jobs(JOBS).start().await;
    let import = farm.submit("import").await;
    let home = farm.lives(import, 1).await.running_at.expect("a node");
    let check = farm.submit("check").await;
    farm.over(check, SOON).await;
    let bad = farm.submit("bad").await;
    farm.lives_or_is_over(bad).await;
    assert!(
        farm.runs("report").await.is_empty(),
        "one of its parents still runs"
    );
    farm.agent(&home).kill_with_wardens();

    let import = farm.over(import, Duration::from_secs(60)).await;
    assert_eq!(import.state, "succeeded", "{import:?}");
    assert_eq!((import.attempt, import.takeovers), (2, 1), "{import:?}");
    let report = farm.first_run("report").await;
    farm.succeeds(report.run_id).await;
    let met: String = farm
        .value(&format!(
            "SELECT concat(parents->>'import', ' ', parents->>'check') FROM farmhand.run WHERE run_id = {}",
            report.run_id
        ))
        .await;
    let check = farm.run(check).await;
    assert_eq!(met, format!("{} {}", import.run_id, check.run_id));

    let bad = farm.over(bad, SOON).await;
    assert_eq!(bad.state, "failed", "{bad:?}");
    let alarm = farm.first_run("alarm").await;
    let alarm = farm.succeeds(alarm.run_id).await;
    assert_eq!(
        farm.output(alarm.run_id, alarm.attempt).await,
        format!("follows {}\n", bad.run_id)
    );
    let always = farm.first_run("always").await;
    farm.succeeds(always.run_id).await;

    let left = "SELECT count(*) FROM farmhand.triggering";
    farm.eventually("nothing is left that could make a run", SOON, async || match farm
        .value::<i64>(left)
        .await
    {
        0 => Ok(()),
        left => Err(format!("{left} ends are not settled")),
    })
    .await;
    for (job, count) in [("report", 1), ("alarm", 1), ("always", 1), ("never", 0)] {
        assert_eq!(farm.runs(job).await.len(), count, "{job}");
    }
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_agent_died_before_it_could_follow_is_followed_by_another() {
    let mut farm = Farm::new().agents(2).jobs(JOBS).start().await;
    let bad = farm.submit("bad").await;
    let home = farm.lives(bad, 1).await.running_at.expect("a node");
    // Held, so that the end is written down and cannot be followed.
    let locker = farm.database.client().await;
    locker
        .batch_execute("BEGIN; SELECT FROM farmhand.job WHERE job_id = 'alarm' FOR UPDATE")
        .await
        .expect("the lock");
    farm.over(bad, SOON).await;
    assert!(farm.runs("alarm").await.is_empty());
    farm.agent(&home).kill_with_wardens();
    locker.batch_execute("COMMIT").await.expect("the end of the lock");
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
