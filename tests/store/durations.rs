//! How long a command ran is what its node measured; where none did, until its end was recorded. Whoever reads it is told the same.

use std::time::Duration;

use farmhand_store::protocol::{Finish, claim, finish, retry};
use farmhand_store::reading::{self, Paging, RunFilter, Window};
use jiff::Timestamp;

use crate::fixture::{Farm, failure, past, spec, success};

/// Recorded an hour after its start.
fn late(mut end: Finish, ran_ms: Option<i64>) -> Finish {
    (end.measured.started_at, end.measured.ran_ms) = (Some(past(3_600)), ran_ms);
    end
}

#[tokio::test]
async fn every_reader_is_told_what_the_node_measured() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 6).await;
    let mut runs = claim(&farm.db, &me, 10, None).await.unwrap();
    let unmeasured = runs.pop().unwrap();
    let ends: Vec<Finish> = runs.iter().map(|run| late(success(&me, run), Some(7))).collect();
    finish(&farm.db, &ends).await.unwrap();

    let run = runs[0].run_id;
    let detail = reading::run(&farm.db, run).await.unwrap().unwrap();
    assert_eq!((detail.run.ran_ms, detail.attempts[0].ran_ms), (Some(7), Some(7)));
    let listed = reading::runs(&farm.db, &RunFilter::default(), &Paging::first(50))
        .await
        .unwrap();
    let item = |of: i64| listed.items.iter().find(|item| item.run_id == of).unwrap();
    assert_eq!(
        (item(run).ran_ms, item(unmeasured.run_id).ran_ms),
        (Some(7), None)
    );
    let cells = reading::cells(&farm.db, "j", 10).await.unwrap();
    let cell = cells.iter().find(|cell| cell.run_id == run).unwrap();
    assert_eq!(cell.duration_ms, Some(7));
    let days = reading::days(&farm.db, "j", 7).await.unwrap().unwrap();
    assert_eq!(days.durations.map(|all| all.longest_ms), Some(7));
    let usual = reading::usual(&farm.db, vec!["j"]).await.unwrap();
    assert_eq!(usual["j"].longest, Duration::from_millis(7));
    let window = Window {
        from: past(7_200),
        to: Timestamp::now(),
        nodes: Vec::new(),
        job: None,
    };
    let lanes = reading::lanes(&farm.db, &window).await.unwrap();
    let bar = lanes.bars.iter().find(|bar| bar.run_id == run).unwrap();
    assert_eq!(bar.ran_ms, Some(7));

    // As an agent ends it that does not measure.
    finish(&farm.db, &[late(success(&me, &unmeasured), None)])
        .await
        .unwrap();
    let detail = reading::run(&farm.db, unmeasured.run_id).await.unwrap().unwrap();
    assert!(detail.run.ran_ms >= Some(3_600_000), "{:?}", detail.run.ran_ms);
}

#[tokio::test]
async fn an_attempt_that_does_not_end_its_run_keeps_what_was_measured() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let mut failed = failure(&me, &run, Duration::ZERO);
    (failed.measured.started_at, failed.measured.ran_ms) = (Some(past(3_600)), Some(7));
    retry(&farm.db, &[failed]).await.unwrap();
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    let detail = reading::run(&farm.db, run.run_id).await.unwrap().unwrap();
    let told: Vec<Option<i64>> = detail.attempts.iter().map(|a| a.ran_ms).collect();
    assert_eq!(told, [Some(7), None]);
    // Never started: there is nothing to measure.
    let mut never = success(&me, &again);
    (never.measured.started_at, never.measured.ran_ms) = (None, None);
    finish(&farm.db, &[never]).await.unwrap();
    assert_eq!(
        reading::run(&farm.db, run.run_id)
            .await
            .unwrap()
            .unwrap()
            .run
            .ran_ms,
        None
    );
}
