//! kill -9 of what holds a run that reports how far it has come.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn another_node_goes_on_from_the_checkpoint_of_a_killed_one() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs(
            r#"
            [job.count]
            progress_timeout = '5s'
            command = '''
            n=${FARMHAND_CHECKPOINT:-0}
            echo "from $n"
            while [ "$n" -lt 60 ]; do
                sleep 0.1
                n=$((n + 1))
                echo "$n" >&$FARMHAND_PROGRESS_FD
            done
            '''
            "#,
        )
        .start()
        .await;
    let run_id = farm.submit("count").await;
    let stored = async |least: i64| {
        farm.eventually("enough is stored", SOON, async || {
            let n: Option<i64> = farm
                .value("SELECT max(checkpoint::bigint) FROM farmhand.progress")
                .await;
            n.filter(|n| *n >= least).ok_or_else(|| format!("{n:?}"))
        })
        .await
    };
    let before = stored(12).await;
    let home = farm.run(run_id).await.running_at.expect("a node");
    farm.agent(&home).kill_with_wardens();
    let done = farm.over(run_id, Duration::from_secs(60)).await;
    assert_eq!(done.state, "succeeded", "{done:?}");
    assert_eq!((done.attempt, done.takeovers), (2, 1), "{done:?}");
    assert_ne!(done.running_at.as_deref(), Some(home.as_str()));
    let from: i64 = farm
        .output(run_id, 2)
        .await
        .trim()
        .strip_prefix("from ")
        .and_then(|n| n.parse().ok())
        .expect("where it began");
    assert!(from >= before && from < 60, "from {from}, {before} was stored");
    let last: String = farm.value("SELECT checkpoint FROM farmhand.progress").await;
    assert_eq!(last, "60");
    farm.check().await;
}
