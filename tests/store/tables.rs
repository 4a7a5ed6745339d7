//! Table jobs: rows become runs, ends are written into rows.

use farmhand_core::definition::{JobSpec, OnLost, Overlap, TableSpec};
use farmhand_core::run::RunState;
use farmhand_store::jobs::{Retried, cancel, pause, retry_run, submit};
use farmhand_store::protocol::{Claimed, Finish, claim, finish, retry};
use farmhand_store::row_writer::RowWriter;
use farmhand_store::tables::{Dispatched, dispatch, survey};
use farmhand_store::{LeaseIdentity, RunKind, StoreError};
use farmhand_tests::acting::anna;
use serde_json::json;

use crate::fixture::{Farm, expire_now, failure, one, spec, success};

pub(crate) const ORDERS: &str = "CREATE SCHEMA shop;
    GRANT USAGE ON SCHEMA shop TO farm_agent;
    ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT, UPDATE ON TABLES TO farm_agent;
    CREATE TABLE shop.orders (id bigint PRIMARY KEY, sent_at timestamptz, began timestamptz, done timestamptz,
        code integer, said varchar(20));
    CREATE INDEX ON shop.orders (id) WHERE sent_at IS NULL;";

pub(crate) fn orders(max_running: u32) -> TableSpec {
    TableSpec {
        schema: "shop".to_owned(),
        name: "orders".to_owned(),
        key: vec!["id".to_owned()],
        dispatch: "sent_at".to_owned(),
        started: Some("began".to_owned()),
        finished: Some("done".to_owned()),
        exit_code: Some("code".to_owned()),
        message: Some("said".to_owned()),
        max_running,
        ..TableSpec::default()
    }
}

pub(crate) fn job(table: TableSpec) -> JobSpec {
    JobSpec {
        table: Some(table),
        overlap: Overlap::Allow,
        ..spec()
    }
}

pub(crate) async fn farm_with(rows: i64, max_running: u32) -> (Farm, LeaseIdentity) {
    let farm = Farm::new().await;
    farm.exec(ORDERS).await;
    insert(&farm, rows).await;
    farm.job("orders", job(orders(max_running)), None).await;
    let me = farm.node("a").await;
    (farm, me)
}

async fn insert(farm: &Farm, rows: i64) {
    farm.sql
        .exec_with(
            "INSERT INTO shop.orders SELECT generate_series(1, $1::bigint)",
            &[&rows],
        )
        .await;
}

pub(crate) async fn look(farm: &Farm) -> Dispatched {
    write(farm).await;
    let answer = dispatch(&farm.db, "orders").await.unwrap();
    assert_eq!(answer.problem, None);
    answer
}

/// Writes into rows what is to be written, whatever it waits for.
pub(crate) async fn write(farm: &Farm) {
    farm.exec("UPDATE farmhand.row_result SET ready_at = statement_timestamp() - interval '1 hour'")
        .await;
    RowWriter::default().run_once(&farm.db, &farm.db).await.unwrap();
}

/// Claims everything.
pub(crate) async fn take(farm: &Farm, me: &LeaseIdentity) -> Vec<Claimed> {
    claim(&farm.db, me, 1000, None).await.unwrap()
}

/// As it is once what is to be written was written.
pub(crate) async fn row(farm: &Farm, id: i64) -> (bool, bool, bool, Option<i32>, Option<String>) {
    write(farm).await;
    let sql = "SELECT sent_at IS NOT NULL, began IS NOT NULL, done IS NOT NULL, code, said FROM shop.orders WHERE id = $1";
    let row = farm.sql.query_one(sql, &[&id]).await.unwrap();
    (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))
}

#[tokio::test]
async fn a_row_is_run_once_and_told_how_it_ended() {
    let (farm, me) = farm_with(1, 10).await;
    assert_eq!(look(&farm).await.made, 1);
    assert_eq!(row(&farm, 1).await, (true, false, false, None, None));
    assert_eq!(look(&farm).await.made, 0);
    let runs = take(&farm, &me).await;
    assert_eq!(
        (runs[0].key.as_deref(), runs[0].kind),
        (Some("1"), RunKind::Table)
    );
    one(&farm, success(&me, &runs[0])).await;
    assert_eq!(
        row(&farm, 1).await,
        (true, true, true, Some(0), Some("succeeded".to_owned()))
    );
    assert_eq!(look(&farm).await.made, 0);
    farm.is("SELECT count(*) FROM farmhand.row_result", 0).await;
    let key = farm.text("SELECT key FROM farmhand.run").await;
    assert_eq!(key.as_deref(), Some("1"));
}

#[tokio::test]
async fn no_more_runs_are_live_than_may_be_and_every_row_gets_its_turn() {
    let (farm, me) = farm_with(25, 10).await;
    let first = look(&farm).await;
    assert_eq!((first.made, first.more), (10, true));
    assert_eq!((look(&farm).await.made, look(&farm).await.room), (0, 0));
    let mut seen = Vec::new();
    for wanted in [10, 10, 5] {
        let runs = take(&farm, &me).await;
        assert_eq!(runs.len(), wanted);
        let ends: Vec<Finish> = runs.iter().map(|r| success(&me, r)).collect();
        finish(&farm.db, &ends).await.unwrap();
        seen.extend(
            runs.iter()
                .map(|r| r.key.clone().unwrap().parse::<i64>().unwrap()),
        );
        look(&farm).await;
    }
    assert_eq!(seen, (1..=25).collect::<Vec<_>>());
    farm.is("SELECT count(*) FROM shop.orders WHERE code = 0", 25)
        .await;
}

#[tokio::test]
async fn agents_that_poll_at_once_make_each_run_once() {
    let (farm, me) = farm_with(400, 300).await;
    let looks = (0..8).map(|_| {
        let db = farm.db.clone();
        tokio::spawn(async move { dispatch(&db, "orders").await.unwrap().made })
    });
    let mut made = 0;
    for look in looks.collect::<Vec<_>>() {
        made += look.await.unwrap();
    }
    assert_eq!(made, 300);
    assert_eq!(take(&farm, &me).await.len(), 300);
    farm.is("SELECT count(*) FROM shop.orders WHERE sent_at IS NOT NULL", 300)
        .await;
}

#[tokio::test]
async fn a_poll_that_crashes_before_its_commit_leaves_the_rows_as_they_were() {
    let (farm, _) = farm_with(3, 10).await;
    let other = farm.test.client().await;
    other
        .exec("BEGIN; SELECT * FROM farmhand.dispatch_rows('orders')")
        .await;
    // Another agent waits for the first one's look, and makes nothing twice.
    let db = farm.db.clone();
    let waiting = tokio::spawn(async move { dispatch(&db, "orders").await.unwrap() });
    crate::fixture::until_blocked(&farm).await;
    drop(other);
    assert_eq!(waiting.await.unwrap().made, 3);
}

#[tokio::test]
async fn null_again_while_it_runs_makes_it_run_again_after_that_and_not_before() {
    let (farm, me) = farm_with(1, 10).await;
    look(&farm).await;
    let first = take(&farm, &me).await.remove(0);
    let again = "UPDATE shop.orders SET sent_at = NULL";
    farm.exec(again).await;
    assert_eq!(look(&farm).await.made, 0);
    one(&farm, success(&me, &first)).await;
    // Somebody wants it again: what is written of the run before would be taken for the next one's.
    assert_eq!(row(&farm, 1).await, (false, false, false, None, None));
    assert_eq!(look(&farm).await.made, 1);
    assert_eq!(row(&farm, 1).await, (true, false, false, None, None));
    let second = take(&farm, &me).await.remove(0);
    assert_ne!(first.run_id, second.run_id);
}

#[tokio::test]
async fn a_retry_keeps_its_row_and_every_kind_of_end_is_written() {
    let (farm, me) = farm_with(4, 10).await;
    look(&farm).await;
    let runs = take(&farm, &me).await;
    retry(&farm.db, &[failure(&me, &runs[0], std::time::Duration::ZERO)])
        .await
        .unwrap();
    assert_eq!(row(&farm, 1).await, (true, false, false, None, None));
    let again = take(&farm, &me).await.remove(0);
    assert_eq!((again.key.as_deref(), again.attempt), (Some("1"), 2));
    let failed = Finish {
        state: RunState::Failed,
        exit_code: Some(3),
        reason: Some("exit code 3, and more to say".to_owned()),
        ..success(&me, &again)
    };
    one(&farm, failed).await;
    // Cut to what the column takes.
    assert_eq!(
        row(&farm, 1).await,
        (true, true, true, Some(3), Some("failed: exit code 3,".to_owned()))
    );
    let timed_out = Finish {
        state: RunState::TimedOut,
        exit_code: None,
        ..success(&me, &runs[1])
    };
    one(&farm, timed_out).await;
    assert_eq!(row(&farm, 2).await.4.as_deref(), Some("timed_out"));
    // Cancelled before it was ever claimed.
    let waiting = {
        farm.exec("INSERT INTO shop.orders VALUES (9)").await;
        look(&farm).await;
        farm.i64("SELECT run_id FROM farmhand.run_live WHERE key = '9'")
            .await
    };
    cancel(&anna(&farm.db), waiting, "me").await.unwrap();
    assert_eq!(row(&farm, 9).await.4.as_deref(), Some("cancelled: cancelled"));
}

#[tokio::test]
async fn a_lost_node_loses_no_row_and_repeats_one_only_as_on_lost_says() {
    for (on_lost, repeated) in [(OnLost::Rerun, true), (OnLost::Fail, false)] {
        let farm = Farm::new().await;
        farm.exec(ORDERS).await;
        insert(&farm, 2).await;
        let spec = JobSpec {
            on_lost,
            ..job(orders(1))
        };
        farm.job("orders", spec, None).await;
        let (a, b) = (farm.node("a").await, farm.node("b").await);
        look(&farm).await;
        let held = take(&farm, &a).await.remove(0);
        expire_now(&farm, &a).await;
        look(&farm).await;
        let next = take(&farm, &b).await.remove(0);
        if repeated {
            assert_eq!((next.run_id, next.attempt), (held.run_id, 2));
            assert_eq!(row(&farm, 1).await, (true, false, false, None, None));
        } else {
            assert_eq!(next.key.as_deref(), Some("2"));
            assert_eq!(row(&farm, 1).await.4.as_deref(), Some("lost: holder lost"));
            assert!(row(&farm, 1).await.0, "its dispatch stays set");
        }
    }
}

#[tokio::test]
async fn a_row_that_somebody_holds_locked_does_not_hold_the_end_back() {
    let (farm, me) = farm_with(2, 10).await;
    look(&farm).await;
    let runs = take(&farm, &me).await;
    let other = farm.test.client().await;
    other
        .exec("BEGIN; SELECT FROM shop.orders WHERE id = 1 FOR UPDATE")
        .await;
    let ends: Vec<Finish> = runs.iter().map(|r| success(&me, r)).collect();
    finish(&farm.db, &ends).await.unwrap();
    assert_eq!(farm.state(runs[0].run_id).await.0, "succeeded");
    assert!(!row(&farm, 1).await.2);
    assert!(row(&farm, 2).await.2);
    // Not run again before it is written, even if it is wanted again.
    other
        .exec("UPDATE shop.orders SET sent_at = NULL WHERE id = 1; COMMIT")
        .await;
    look(&farm).await;
    assert_eq!(row(&farm, 1).await.4.as_deref(), None, "dispatched again");
    farm.is("SELECT count(*) FROM farmhand.row_result", 0).await;
    assert_eq!(take(&farm, &me).await.len(), 1);
}

#[tokio::test]
async fn a_table_that_is_locked_or_gone_does_not_hold_the_end_back_and_is_reported() {
    let (farm, me) = farm_with(3, 10).await;
    look(&farm).await;
    let runs = take(&farm, &me).await;
    let other = farm.test.client().await;
    other.exec("BEGIN; LOCK TABLE shop.orders").await;
    one(&farm, success(&me, &runs[0])).await;
    assert_eq!(farm.state(runs[0].run_id).await.0, "succeeded");
    other.exec("COMMIT").await;
    look(&farm).await;
    assert!(row(&farm, 1).await.2);

    farm.exec("ALTER TABLE shop.orders RENAME TO gone").await;
    one(&farm, success(&me, &runs[1])).await;
    assert_eq!(farm.state(runs[1].run_id).await.0, "succeeded");
    write(&farm).await;
    let event = farm
        .text("SELECT detail->>'error' FROM farmhand.event WHERE kind = 'row_not_written'")
        .await;
    assert!(event.unwrap().contains("shop.orders"));
    let refused = dispatch(&farm.db, "orders").await.unwrap();
    assert!(refused.problem.unwrap().contains("there is no table shop.orders"));
    let seen = survey(&farm.db).await.unwrap().remove(0);
    assert_eq!(seen.unwritten, 1);
    assert!(seen.problem.unwrap().fatal && seen.error.is_some());

    farm.exec("ALTER TABLE shop.gone RENAME TO orders").await;
    look(&farm).await;
    assert!(row(&farm, 2).await.2, "what waited was written");
}

#[tokio::test]
async fn one_row_that_refuses_holds_back_only_itself() {
    let (farm, me) = farm_with(3, 10).await;
    farm.exec("ALTER TABLE shop.orders ADD CHECK (id <> 2 OR code IS NULL)")
        .await;
    look(&farm).await;
    let ends: Vec<Finish> = take(&farm, &me).await.iter().map(|r| success(&me, r)).collect();
    finish(&farm.db, &ends).await.unwrap();
    for (id, written) in [(1, true), (2, false), (3, true)] {
        assert_eq!(row(&farm, id).await.2, written, "row {id}");
    }
    let all = "SELECT count(*) FROM farmhand.run_history WHERE state = 'succeeded'";
    farm.is(all, 3).await;
}

#[tokio::test]
async fn a_table_job_is_neither_submitted_nor_polled_while_paused() {
    let (farm, me) = farm_with(1, 10).await;
    let error = submit(&farm.db, "orders", &json!({}), None, None)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, StoreError::Refused(why) if why.contains("set sent_at of the row to NULL")),
        "{error}"
    );
    pause(&anna(&farm.db), "orders", "me", None).await.unwrap();
    assert_eq!(look(&farm).await.made, 0);
    assert!(take(&farm, &me).await.is_empty());
}

#[tokio::test]
async fn a_row_retried_by_hand_is_told_its_new_end_and_never_run_twice_at_once() {
    let (farm, me) = farm_with(1, 10).await;
    look(&farm).await;
    let run = take(&farm, &me).await.remove(0);
    let failed = Finish {
        state: RunState::Failed,
        exit_code: Some(1),
        ..success(&me, &run)
    };
    one(&farm, failed).await;
    let Retried::Run(again) = retry_run(&anna(&farm.db), run.run_id, "me", false, None)
        .await
        .unwrap()
    else {
        panic!("not retried");
    };
    assert_eq!(
        retry_run(&anna(&farm.db), run.run_id, "me", false, None)
            .await
            .unwrap(),
        Retried::RowLive
    );
    farm.exec("UPDATE shop.orders SET sent_at = NULL").await;
    assert_eq!(look(&farm).await.made, 0);
    farm.exec("UPDATE shop.orders SET sent_at = now()").await;
    let second = take(&farm, &me).await.remove(0);
    assert_eq!((second.run_id, second.key.as_deref()), (again, Some("1")));
    one(&farm, success(&me, &second)).await;
    assert_eq!(row(&farm, 1).await.3, Some(0));
}
