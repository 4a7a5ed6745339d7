//! What becomes of runs is written into users' rows by agents alone, and holds nobody up.

use std::time::{Duration, Instant};

use farmhand_core::definition::{JobSpec, OnLost, TableSpec};
use farmhand_core::run::RunState;
use farmhand_store::Db;
use farmhand_store::jobs::{Retried, cancel, delete, pause, retry_run, submit};
use farmhand_store::partitions::trim_older_than;
use farmhand_store::protocol::{Finish, Started, claim, finish, started};
use farmhand_store::retention::Retention;
use farmhand_store::row_writer::RowWriter;
use farmhand_store::tables::{dispatch, survey};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::config;
use serde_json::json;

use crate::fixture::{Farm, expire_now, one, past, spec, success};
use crate::tables::{ORDERS, farm_with, job, look, orders, row, take, write};

/// A trigger of the table's owner that sleeps.
fn sleeps(seconds: &str, when: &str) -> String {
    format!(
        "CREATE FUNCTION shop.sleep() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$;
         CREATE TRIGGER sleep BEFORE UPDATE ON shop.orders FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION shop.sleep()"
    )
}

#[tokio::test]
async fn a_slow_trigger_of_a_users_table_delays_neither_takeover_nor_other_jobs_ends() {
    let farm = Farm::new().await;
    farm.exec(ORDERS).await;
    farm.exec("INSERT INTO shop.orders SELECT generate_series(1, 60)")
        .await;
    let fails = JobSpec {
        on_lost: OnLost::Fail,
        ..job(orders(100))
    };
    farm.job("orders", fails, None).await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    assert_eq!(look(&farm).await.made, 60);
    let runs = take(&farm, &a).await;
    assert_eq!(runs.len(), 60);
    let other = farm.held_run(&b, "j", spec()).await;
    farm.exec(&sleeps("0.25", "NEW.done IS NOT NULL")).await;
    let before = Instant::now();
    expire_now(&farm, &a).await;
    finish(&farm.db, &[success(&b, &other)]).await.unwrap();
    assert!(
        before.elapsed() < Duration::from_secs(8),
        "{:?}",
        before.elapsed()
    );
    assert_eq!(farm.state(runs[59].run_id).await.0, "lost");
    farm.is("SELECT count(*) FROM farmhand.row_result", 60).await;
}

#[tokio::test]
async fn a_row_that_hangs_holds_back_no_other_row_and_no_other_job() {
    let (farm, me) = farm_with(3, 10).await;
    farm.exec(
        "CREATE TABLE shop.bills (id bigint PRIMARY KEY, sent_at timestamptz, said text);
             INSERT INTO shop.bills VALUES (1)",
    )
    .await;
    let bills = TableSpec {
        name: "bills".to_owned(),
        started: None,
        finished: None,
        exit_code: None,
        ..orders(1)
    };
    farm.job("bills", job(bills), None).await;
    look(&farm).await;
    farmhand_store::tables::dispatch(&farm.db, "bills").await.unwrap();
    farm.exec(&sleeps("600", "NEW.id = 1 AND NEW.done IS NOT NULL"))
        .await;
    let ends: Vec<Finish> = take(&farm, &me).await.iter().map(|r| success(&me, r)).collect();
    assert_eq!(ends.len(), 4);
    finish(&farm.db, &ends).await.unwrap();
    let mut writer = RowWriter::default();
    let wait = writer.run_once(&farm.db, &farm.db).await.unwrap();
    assert!(wait.is_some(), "the row that hangs is tried again");
    let written = "SELECT count(*) FROM shop.orders WHERE done IS NOT NULL";
    farm.is(written, 2).await;
    let said = farm.text("SELECT said FROM shop.bills").await;
    assert_eq!(said.as_deref(), Some("succeeded"));
    let why = farm.text("SELECT error FROM farmhand.row_result").await;
    assert!(why.unwrap().contains("timeout"));
}

#[tokio::test]
async fn an_older_end_never_follows_a_newer_one() {
    let (farm, me) = farm_with(1, 10).await;
    look(&farm).await;
    let first = take(&farm, &me).await.remove(0);
    let other = farm.test.client().await;
    other.exec("BEGIN; SELECT FROM shop.orders FOR UPDATE").await;
    let failed = Finish {
        state: RunState::Failed,
        exit_code: Some(3),
        ..success(&me, &first)
    };
    one(&farm, failed).await;
    write(&farm).await;
    let Retried::Run(_) = retry_run(&anna(&farm.db), first.run_id, "me", false, None)
        .await
        .unwrap()
    else {
        panic!("not retried");
    };
    other.exec("COMMIT").await;
    let second = take(&farm, &me).await.remove(0);
    one(&farm, success(&me, &second)).await;
    look(&farm).await;
    assert_eq!(row(&farm, 1).await.4.as_deref(), Some("succeeded"));
    farm.is("SELECT count(*) FROM farmhand.row_result", 0).await;
}

/// The statement that takes the notes is refused, and before they are read another agent has written them.
#[tokio::test]
async fn notes_that_another_agent_wrote_after_a_refusal_leave_nothing_to_write_singly() {
    let (farm, me) = farm_with(2, 10).await;
    look(&farm).await;
    let runs = take(&farm, &me).await;
    one(&farm, success(&me, &runs[0])).await;
    // Refuses once somebody waits for the whole table: who reads the notes afterwards comes behind them.
    farm.exec(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_advisory_xact_lock(42);
            WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'farmhand.row_result'::regclass
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) LOOP
                PERFORM pg_sleep(0.01);
            END LOOP;
            RAISE 'refused';
         END $$;
         CREATE TRIGGER refuse BEFORE DELETE ON farmhand.row_result EXECUTE FUNCTION refuse()"
    ).await;
    let other = farm.test.client().await;
    let mut writer = RowWriter::default();
    let (wait, ()) = tokio::join!(writer.run_once(&farm.db, &farm.db), async {
        let deletes = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        farm.until(deletes, 1).await;
        other
            .exec(
                "BEGIN; LOCK TABLE farmhand.row_result; DROP TRIGGER refuse ON farmhand.row_result;
                 DELETE FROM farmhand.row_result; COMMIT",
            )
            .await;
    });
    wait.unwrap();
    one(&farm, success(&me, &runs[1])).await;
    writer.run_once(&farm.db, &farm.db).await.unwrap();
    assert_eq!(row(&farm, 2).await.4.as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn the_ends_of_paused_and_deleted_jobs_are_written_and_doctor_counts_what_is_not() {
    let (farm, me) = farm_with(2, 10).await;
    look(&farm).await;
    let runs = take(&farm, &me).await;
    let other = farm.test.client().await;
    other.exec("BEGIN; SELECT FROM shop.orders FOR UPDATE").await;
    for (run, end) in runs.iter().zip(["paused", "deleted"]) {
        one(&farm, success(&me, run)).await;
        match end {
            "paused" => pause(&anna(&farm.db), "orders", "me", None).await.map(drop),
            _ => delete(
                &anna(&Db::connect(&farm.test.config()).await.unwrap()),
                &["orders".to_owned()],
                "me",
            )
            .await
            .map(drop),
        }
        .unwrap();
    }
    farm.exec("UPDATE farmhand.row_result SET noted_at = now() - interval '1 hour'")
        .await;
    let seen = survey(&farm.db).await.unwrap().remove(0);
    assert_eq!((seen.unwritten, seen.problem), (2, None));
    assert!(seen.error.unwrap().contains("locked"));
    other.exec("COMMIT").await;
    for id in [1, 2] {
        assert!(row(&farm, id).await.2, "row {id}");
    }
    assert!(survey(&farm.db).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_row_shows_that_its_attempt_has_started() {
    let (farm, me) = farm_with(1, 10).await;
    look(&farm).await;
    let run = take(&farm, &me).await.remove(0);
    let start = Started {
        run_id: run.run_id,
        attempt: run.attempt,
        fence: run.fence,
        started_at: past(1),
    };
    let begun = started(&farm.db, &me, &[start]).await.unwrap();
    assert!(begun[0].of_row);
    assert_eq!(row(&farm, 1).await, (true, true, false, None, None));
}

#[tokio::test]
async fn a_start_that_is_over_is_not_written_after_the_end() {
    let (farm, me) = farm_with(1, 10).await;
    look(&farm).await;
    let run = take(&farm, &me).await.remove(0);
    one(&farm, success(&me, &run)).await;
    write(&farm).await;
    farm.sql
        .exec_with(
            "INSERT INTO farmhand.row_result (run_id, attempt, job_id, rev, key, started_at)
             VALUES ($1, 1, 'orders', 1, '1', '2001-01-01Z')",
            &[&run.run_id],
        )
        .await;
    write(&farm).await;
    farm.is("SELECT count(*) FROM shop.orders WHERE began < '2002-01-01Z'", 0)
        .await;
    farm.is("SELECT count(*) FROM farmhand.row_result", 0).await;
}

#[tokio::test]
async fn agents_that_write_at_once_write_each_row_once() {
    let (farm, me) = farm_with(120, 200).await;
    look(&farm).await;
    let ends: Vec<Finish> = take(&farm, &me).await.iter().map(|r| success(&me, r)).collect();
    finish(&farm.db, &ends).await.unwrap();
    farm.exec(
        "CREATE TABLE shop.written (id bigint);
             GRANT INSERT ON shop.written TO PUBLIC;
             CREATE FUNCTION shop.count() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO shop.written VALUES (NEW.id); RETURN NEW; END $$;
             CREATE TRIGGER counted BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.count()",
    )
    .await;
    let writers = (0..4).map(|_| {
        let db = farm.db.clone();
        tokio::spawn(async move { RowWriter::default().run_once(&db, &db).await.unwrap() })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    write(&farm).await;
    farm.is("SELECT count(*) FROM shop.written", 120).await;
}

#[tokio::test]
async fn no_operators_session_executes_a_trigger_of_a_tables_owner() {
    let (farm, _) = farm_with(1, 10).await;
    farm.exec(
        "CREATE TABLE shop.seen (who text);
             GRANT INSERT ON shop.seen TO PUBLIC;
             CREATE FUNCTION shop.see() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO shop.seen VALUES (session_user); RETURN NEW; END $$;
             CREATE TRIGGER see BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.see();
             GRANT USAGE ON SCHEMA shop TO farm_operator;
             GRANT SELECT, UPDATE ON shop.orders TO farm_operator",
    )
    .await;
    look(&farm).await;
    let run = farm.i64("SELECT run_id FROM farmhand.run_live").await;
    let operator = Db::connect(&config(&farm.test.url_as("farm_operator")))
        .await
        .unwrap();
    cancel(&anna(&operator), run, "olga").await.unwrap();
    assert_eq!(row(&farm, 1).await.4.as_deref(), Some("cancelled: cancelled"));
    farm.is("SELECT count(*) FROM shop.seen WHERE who = 'farm_operator'", 0)
        .await;
    assert!(
        farm.i64("SELECT count(*) FROM shop.seen").await > 0,
        "the trigger is there"
    );
}

#[tokio::test]
async fn a_key_is_good_for_as_long_as_its_run_waits_or_is_in_the_history() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", spec(), None).await;
    let first = submit(&farm.db, "j", &json!({}), None, Some("k")).await.unwrap();
    let month = "UPDATE farmhand.submission SET at = now() - interval '31 days'";
    farm.exec(month).await;
    let kept = Retention::default();
    let again = async || submit(&farm.db, "j", &json!({}), None, Some("k")).await.unwrap();
    trim_older_than(&farm.db, kept).await.unwrap();
    assert_eq!(again().await, first);
    let run = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    one(&farm, success(&me, &run)).await;
    trim_older_than(&farm.db, kept).await.unwrap();
    assert_eq!(again().await, first);
    let forgotten = "DELETE FROM farmhand.run_history";
    farm.exec(forgotten).await;
    trim_older_than(&farm.db, kept).await.unwrap();
    farm.is("SELECT count(*) FROM farmhand.submission", 0).await;
}

#[tokio::test]
async fn a_row_has_one_live_run_whichever_of_two_jobs_took_it() {
    let (farm, me) = farm_with(1, 10).await;
    assert_eq!(look(&farm).await.made, 1);
    let first = take(&farm, &me).await.remove(0);
    let again = "UPDATE shop.orders SET sent_at = NULL";
    farm.exec(again).await;
    farm.job("twin", job(orders(10)), None).await;
    assert_eq!(
        dispatch(&farm.db, "twin").await.unwrap().made,
        0,
        "its run is live"
    );
    one(&farm, success(&me, &first)).await;
    assert_eq!(
        dispatch(&farm.db, "twin").await.unwrap().made,
        0,
        "its end is not written"
    );
    write(&farm).await;
    assert_eq!(dispatch(&farm.db, "twin").await.unwrap().made, 1);
    let second = take(&farm, &me).await.remove(0);

    // By hand, which asks nobody, so that the older run ends last.
    farm.exec(again).await;
    let key = second.key.clone().unwrap();
    let by_hand = "INSERT INTO farmhand.run_live (job_id, rev, kind, instance, due_at, ready_at, key)
        VALUES ('orders', 1, 'table', 0, now(), now(), $1)";
    farm.sql.exec_with(by_hand, &[&key]).await;
    let newest = take(&farm, &me).await.remove(0);
    let told = "UPDATE shop.orders SET sent_at = now()";
    farm.exec(told).await;
    one(&farm, success(&me, &second)).await;
    assert!(!row(&farm, 1).await.2, "the newest run has not ended");
    one(&farm, success(&me, &newest)).await;
    assert!(row(&farm, 1).await.2);
}
