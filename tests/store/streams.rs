//! Lines of streams: who may record them, what the next attempt learns of them, how they are replayed.

use farmhand_core::definition::{JobSpec, StreamSpec};
use farmhand_core::run::RunState;
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{Retried, retry_run};
use farmhand_store::protocol::{Attempt, Claimed, Finish, claim, sweep};
use farmhand_store::streams::{
    ItemEnd, ItemRow, Items, Replayed, Wanted, drop_older_than, items, record_items, replay_items,
};
use farmhand_tests::acting::anna;
use jiff::Timestamp;

use super::fixture::*;

fn stream() -> JobSpec {
    JobSpec {
        stream: Some(StreamSpec {
            file: Some("/l".to_owned()),
            ..StreamSpec::default()
        }),
        ..spec()
    }
}

fn end(item: i64, outcome: &str, line: &str) -> ItemEnd {
    ItemEnd {
        item,
        outcome: outcome.to_owned(),
        failures: 3,
        line: line.bytes().map(|b| format!("{b:02x}")).collect(),
        started_at: None,
        ended_at: Timestamp::now(),
        exit_code: Some(1),
        signal: None,
        reason: Some("exit code 1".to_owned()),
        output: Some("6f00".to_owned()),
    }
}

async fn record(farm: &Farm, run: &Claimed, session: i64, ends: &[ItemEnd]) -> usize {
    record_items(&farm.db, Attempt::from(run), session, ends)
        .await
        .unwrap()
}

async fn all(farm: &Farm, run_id: i64) -> Vec<ItemRow> {
    let wanted = Wanted {
        run_id,
        after: 0,
        only: None,
        failed: false,
        limit: 100,
    };
    items(&farm.db, &wanted).await.unwrap()
}

#[tokio::test]
async fn a_line_that_was_recorded_is_known_to_the_next_attempt() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let first = farm.held_run(&a, "j", stream()).await;
    assert_eq!(first.items, Some(Items::default()));
    let ends = [end(7, "failed", "x"), end(4, "refused", "y")];
    assert_eq!(record(&farm, &first, a.session, &ends).await, 2);
    assert_eq!(
        record(&farm, &first, a.session, &ends).await,
        2,
        "the reply was lost"
    );
    expire_now(&farm, &a).await;
    let second = claim(&farm.db, &b, 1, None).await.unwrap().remove(0);
    let known = second.items.unwrap();
    assert_eq!((known.recorded, known.replay), (vec![7, 4], None));
    let rows = all(&farm, first.run_id).await;
    let told: Vec<_> = rows
        .iter()
        .map(|r| (r.item, r.outcome.as_str(), r.attempt))
        .collect();
    assert_eq!(told, [(4, "refused", 1), (7, "failed", 1)]);
    let seven = rows.last().unwrap();
    assert_eq!(
        (seven.line.as_str(), seven.output.as_deref()),
        ("78", Some("6f00"))
    );
    // Other jobs' runs cost nothing.
    let plain = farm.held_run(&b, "k", spec()).await;
    assert_eq!(plain.items, None);
}

#[tokio::test]
async fn a_stale_holder_records_nothing() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let stale = farm.held_run(&a, "j", stream()).await;
    expire_now(&farm, &a).await;
    assert_eq!(
        record(&farm, &stale, a.session, &[end(1, "failed", "x")]).await,
        0
    );
    let fresh = claim(&farm.db, &b, 1, None).await.unwrap().remove(0);
    assert_eq!(
        record(&farm, &stale, a.session, &[end(1, "failed", "x")]).await,
        0
    );
    assert_eq!(
        record(&farm, &fresh, a.session + 5, &[end(1, "failed", "x")]).await,
        0
    );
    assert_eq!(all(&farm, fresh.run_id).await, []);
}

#[tokio::test]
async fn a_run_whose_record_is_in_flight_is_freed_after_it_and_the_next_attempt_knows_it() {
    const RECORD: &str = include_str!("../../common/store/src/sql/record_items.sql");
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let run = farm.held_run(&a, "j", stream()).await;
    let writer = farm.test.client().await;
    writer.exec("BEGIN").await;
    let ends = tokio_postgres::types::Json([end(2, "failed", "x")]);
    writer
        .exec_with(
            RECORD,
            &[&run.run_id, &run.attempt, &run.fence, &a.session, &ends],
        )
        .await;
    expire_now(&farm, &a).await;
    assert_eq!(farm.state(run.run_id).await.0, "running", "it is passed over");
    writer.exec("COMMIT").await;
    sweep(&farm.db).await.unwrap();
    let next = claim(&farm.db, &b, 1, None).await.unwrap().remove(0);
    assert_eq!(next.items.unwrap().recorded, [2]);
}

#[tokio::test]
async fn a_line_is_replayed_once_and_a_replay_that_is_taken_over_has_what_is_left() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let run = farm.held_run(&a, "j", stream()).await;
    let ends = [
        end(2, "failed", "two"),
        end(5, "timed_out", "five"),
        end(6, "refused", "six"),
        end(9, "failed", "nine"),
    ];
    record(&farm, &run, a.session, &ends).await;
    // While it still runs, too.
    let one = replay_items(&anna(&farm.db), run.run_id, "eve", Some(&[9, 6]))
        .await
        .unwrap();
    let Replayed::Run {
        run_id: nine,
        items: 1,
    } = one
    else {
        panic!("{one:?}")
    };
    let rest = replay_items(&anna(&farm.db), run.run_id, "eve", None)
        .await
        .unwrap();
    let Replayed::Run {
        run_id: rest,
        items: 2,
    } = rest
    else {
        panic!("{rest:?}")
    };
    assert_eq!(
        replay_items(&anna(&farm.db), run.run_id, "eve", None)
            .await
            .unwrap(),
        Replayed::Nothing
    );
    assert_eq!(
        replay_items(&anna(&farm.db), 4711, "eve", None).await.unwrap(),
        Replayed::NotFound
    );

    let first = claim(&farm.db, &a, 1, Some(&[rest])).await.unwrap().remove(0);
    let lines = |run: &Claimed| run.items.clone().unwrap().replay.unwrap();
    assert_eq!(lines(&first), [2, 5]);
    assert_eq!(
        record(&farm, &first, a.session, &[end(2, "succeeded", "two")]).await,
        1
    );
    expire_now(&farm, &a).await;
    let second = claim(&farm.db, &b, 1, Some(&[rest])).await.unwrap().remove(0);
    assert_eq!(lines(&second), [5]);
    record(&farm, &second, b.session, &[end(5, "failed", "five")]).await;

    let told: Vec<_> = all(&farm, run.run_id)
        .await
        .into_iter()
        .map(|row| (row.item, row.replayed_by, row.replay))
        .collect();
    let replay = |item, run, how: &str| (item, Some(run), Some(how.to_owned()));
    let expected = [
        replay(2, rest, "succeeded"),
        replay(5, rest, "failed"),
        (6, None, None),
        replay(9, nine, "waiting"),
    ];
    assert_eq!(told, expected);
    // What failed again is replayed from there.
    let again = replay_items(&anna(&farm.db), rest, "eve", None).await.unwrap();
    assert!(matches!(again, Replayed::Run { items: 1, .. }), "{again:?}");
}

/// The replay of a run of which two lines failed, 2 and 5, claimed.
async fn replay_of_two(farm: &Farm, me: &LeaseIdentity) -> Claimed {
    let run = farm.held_run(me, "j", stream()).await;
    let ends = [end(2, "failed", "two"), end(5, "failed", "five")];
    record(farm, &run, me.session, &ends).await;
    let replayed = replay_items(&anna(&farm.db), run.run_id, "eve", None)
        .await
        .unwrap();
    let Replayed::Run { run_id, items: 2 } = replayed else {
        panic!("{replayed:?}")
    };
    claim(&farm.db, me, 1, Some(&[run_id])).await.unwrap().remove(0)
}

#[tokio::test]
async fn what_a_replay_did_not_come_to_before_it_ended_is_replayed_from_it() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let replay = replay_of_two(&farm, &a).await;
    record(&farm, &replay, a.session, &[end(2, "succeeded", "two")]).await;
    assert_eq!(
        replay_items(&anna(&farm.db), replay.run_id, "eve", None)
            .await
            .unwrap(),
        Replayed::Nothing,
        "it may still come to the other"
    );
    let cancelled = Finish {
        state: RunState::Cancelled,
        ..success(&a, &replay)
    };
    one(&farm, cancelled).await;
    let again = replay_items(&anna(&farm.db), replay.run_id, "eve", None)
        .await
        .unwrap();
    let Replayed::Run { run_id, items: 1 } = again else {
        panic!("{again:?}")
    };
    let second = claim(&farm.db, &a, 1, Some(&[run_id])).await.unwrap().remove(0);
    assert_eq!(second.items.unwrap().replay, Some(vec![5]));
}

#[tokio::test]
async fn a_retry_of_a_replay_runs_what_is_left_of_its_lines_and_no_other() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let first = replay_of_two(&farm, &a).await;
    let ends = [end(2, "succeeded", "two"), end(5, "failed", "five")];
    record(&farm, &first, a.session, &ends).await;
    let failed = Finish {
        state: RunState::Failed,
        ..success(&a, &first)
    };
    one(&farm, failed).await;
    let eve = anna(&farm.db);
    let retry = || retry_run(&eve, first.run_id, "eve", false, None);
    let Retried::Run(again) = retry().await.unwrap() else {
        panic!("it is not run again")
    };
    let second = claim(&farm.db, &a, 1, Some(&[again])).await.unwrap().remove(0);
    assert_eq!(second.items.unwrap().replay, Some(vec![5]));
    assert_eq!(retry().await.unwrap(), Retried::NoLines);
}

#[tokio::test]
async fn of_many_who_replay_a_line_at_once_one_does_and_the_others_are_told() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let run = farm.held_run(&a, "j", stream()).await;
    for item in 1..=20 {
        record(&farm, &run, a.session, &[end(item, "failed", "x")]).await;
        let eve = anna(&farm.db);
        let replay = || replay_items(&eve, run.run_id, "eve", None);
        let all = tokio::join!(replay(), replay(), replay(), replay());
        let mut all = [all.0.unwrap(), all.1.unwrap(), all.2.unwrap(), all.3.unwrap()];
        all.sort_by_key(|replayed| *replayed == Replayed::Nothing);
        assert!(matches!(all[0], Replayed::Run { items: 1, .. }), "{all:?}");
        assert!(all[1..].iter().all(|r| *r == Replayed::Nothing), "{all:?}");
    }
}

#[tokio::test]
async fn a_job_that_is_no_stream_any_more_replays_nothing() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let run = farm.held_run(&a, "j", stream()).await;
    record(&farm, &run, a.session, &[end(2, "failed", "two")]).await;
    farm.job("j", spec(), None).await;
    assert_eq!(
        replay_items(&anna(&farm.db), run.run_id, "eve", None)
            .await
            .unwrap(),
        Replayed::NoStream
    );
}

#[tokio::test]
async fn lines_of_ended_runs_are_dropped_with_the_history_and_no_others() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let (over, live) = (
        farm.held_run(&a, "j", stream()).await,
        farm.held_run(&a, "k", stream()).await,
    );
    for run in [&over, &live] {
        record(&farm, run, a.session, &[end(1, "failed", "x")]).await;
    }
    one(&farm, success(&a, &over)).await;
    let older = "UPDATE farmhand.stream_item SET stored_at = stored_at - interval '40 days'";
    farm.exec(older).await;
    assert_eq!(drop_older_than(&farm.db, 30).await.unwrap(), 0);
    farm.exec("DELETE FROM farmhand.run_history").await;
    assert_eq!(drop_older_than(&farm.db, 30).await.unwrap(), 1);
    assert_eq!(all(&farm, live.run_id).await.len(), 1);
}

#[tokio::test]
async fn of_a_run_that_lives_on_no_replay_is_forgotten() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let run = farm.held_run(&a, "j", stream()).await;
    record(&farm, &run, a.session, &[end(7, "failed", "x")]).await;
    replay_items(&anna(&farm.db), run.run_id, "eve", None)
        .await
        .unwrap();
    let replay = claim(&farm.db, &a, 1, None).await.unwrap().remove(0);
    record(&farm, &replay, a.session, &[end(7, "succeeded", "x")]).await;
    one(&farm, success(&a, &replay)).await;
    let older = "UPDATE farmhand.stream_item SET stored_at = stored_at - interval '40 days';
        DELETE FROM farmhand.run_history";
    farm.exec(older).await;
    assert_eq!(drop_older_than(&farm.db, 30).await.unwrap(), 0);
    assert_eq!(
        replay_items(&anna(&farm.db), run.run_id, "eve", None)
            .await
            .unwrap(),
        Replayed::Nothing
    );
}
