use std::time::Duration;

use farmhand_store::LeaseIdentity;
use farmhand_store::progress::{MAX_CHECKPOINT, Progress, drop_older_than, progress, record_progress};
use farmhand_store::protocol::Claimed;
use farmhand_store::protocol::{claim, retry, sweep};

use crate::fixture::{Farm, expire_now, failure, one, spec, success};

fn report(me: &LeaseIdentity, run: &Claimed, checkpoint: Option<&str>) -> Progress {
    Progress {
        run_id: run.run_id,
        attempt: run.attempt,
        fence: run.fence,
        address: me.address.clone(),
        session: me.session,
        checkpoint: checkpoint.map(str::to_owned),
    }
}

async fn record(farm: &Farm, report: Progress) -> usize {
    record_progress(&farm.db, &[report]).await.unwrap().len()
}

#[tokio::test]
async fn the_next_attempt_gets_the_last_checkpoint_after_a_retry_and_a_takeover() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let first = farm.held_run(&a, "j", spec()).await;
    assert_eq!(first.checkpoint, None);
    assert_eq!(record(&farm, report(&a, &first, Some("1"))).await, 1);
    retry(&farm.db, &[failure(&a, &first, Duration::ZERO)])
        .await
        .unwrap();
    let second = claim(&farm.db, &a, 1, None).await.unwrap().remove(0);
    assert_eq!(second.checkpoint.as_deref(), Some("1"));
    assert_eq!(record(&farm, report(&a, &second, Some("2"))).await, 1);
    assert_eq!(
        record(&farm, report(&a, &second, None)).await,
        1,
        "a sign of life"
    );
    expire_now(&farm, &a).await;
    let third = claim(&farm.db, &b, 1, None).await.unwrap().remove(0);
    assert_eq!((third.attempt, third.checkpoint.as_deref()), (3, Some("2")));
    one(&farm, success(&b, &third)).await;
    let shown = progress(&farm.db, first.run_id).await.unwrap().unwrap();
    assert_eq!((shown.attempt, shown.checkpoint.as_deref()), (2, Some("2")));
}

#[tokio::test]
async fn a_stale_holder_moves_no_checkpoint() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let stale = farm.held_run(&a, "j", spec()).await;
    record(&farm, report(&a, &stale, Some("old"))).await;
    expire_now(&farm, &a).await;
    assert_eq!(record(&farm, report(&a, &stale, Some("late"))).await, 0);
    let fresh = claim(&farm.db, &b, 1, None).await.unwrap().remove(0);
    assert_eq!(fresh.checkpoint.as_deref(), Some("old"));
    record(&farm, report(&b, &fresh, Some("new"))).await;
    let mut stale = report(&a, &stale, Some("late"));
    assert_eq!(record(&farm, stale.clone()).await, 0);
    stale.attempt = fresh.attempt;
    assert_eq!(record(&farm, stale).await, 0, "another session's");
    let shown = progress(&farm.db, fresh.run_id).await.unwrap().unwrap();
    assert_eq!(shown.checkpoint.as_deref(), Some("new"));
}

#[tokio::test]
async fn a_run_whose_checkpoint_is_in_flight_is_freed_after_it_and_the_next_attempt_has_it() {
    const RECORD: &str = include_str!("../../common/store/src/sql/record_progress.sql");
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let run = farm.held_run(&a, "j", spec()).await;
    let writer = farm.test.client().await;
    writer.exec("BEGIN").await;
    let reports = tokio_postgres::types::Json([report(&a, &run, Some("in flight"))]);
    writer
        .query_typed(RECORD, &[(&reports, tokio_postgres::types::Type::JSON)])
        .await
        .unwrap();
    expire_now(&farm, &a).await;
    assert_eq!(farm.state(run.run_id).await.0, "running", "it is passed over");
    writer.exec("COMMIT").await;
    sweep(&farm.db).await.unwrap();
    let next = claim(&farm.db, &b, 1, None).await.unwrap().remove(0);
    assert_eq!(next.checkpoint.as_deref(), Some("in flight"));
}

#[tokio::test]
async fn the_longest_checkpoint_fits_and_old_ones_go_with_their_runs() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let longest = "x".repeat(MAX_CHECKPOINT);
    assert_eq!(record(&farm, report(&me, &run, Some(&longest))).await, 1);
    let old = "UPDATE farmhand.progress SET at = at - interval '400 days'";
    farm.sql.exec_with(old, &[]).await;
    assert_eq!(drop_older_than(&farm.db, 90).await.unwrap(), 0, "its run lives");
    one(&farm, success(&me, &run)).await;
    assert_eq!(drop_older_than(&farm.db, 90).await.unwrap(), 1);
}

#[tokio::test]
async fn a_checkpoint_is_kept_for_as_long_as_the_owner_keeps_history() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    record(&farm, report(&me, &run, Some("x"))).await;
    one(&farm, success(&me, &run)).await;
    let old = "UPDATE farmhand.progress SET at = at - interval '3 days'";
    farm.sql.exec_with(old, &[]).await;
    assert_eq!(
        drop_older_than(&farm.db, 1).await.unwrap(),
        0,
        "seven days are kept"
    );
}
