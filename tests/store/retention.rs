//! What is too old is forgotten, and holds nobody up.

use std::time::Duration;

use farmhand_store::Db;
use farmhand_store::events::{EventRow, record_events};
use farmhand_store::partitions::drop_older_than;
use farmhand_store::retention::{Retention, forget};

use crate::connections::event;
use crate::fixture::{Farm, spec, success};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(3);

#[tokio::test]
async fn retention_drops_whole_partitions_and_keeps_the_young() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    farmhand_store::protocol::finish(&farm.db, &[success(&me, &run)])
        .await
        .unwrap();
    farm.exec(
        "CREATE TABLE farmhand.run_history_20200106 PARTITION OF farmhand.run_history
                 FOR VALUES FROM ('2020-01-06Z') TO ('2020-01-13Z');
             CREATE TABLE farmhand.event_20200106 PARTITION OF farmhand.event
                 FOR VALUES FROM ('2020-01-06Z') TO ('2020-01-13Z');
             INSERT INTO farmhand.event (at, kind, severity) VALUES ('2020-01-07Z', 'old', 'info'),
                 ('2019-01-01Z', 'in the net', 'info')",
    )
    .await;
    let young = EventRow {
        kind: "young".to_owned(),
        ..event()
    };
    record_events(&farm.db, &[young]).await.unwrap();
    let mut dropped = drop_older_than(&farm.db, Retention::default()).await.unwrap();
    dropped.sort();
    assert_eq!(dropped, ["event_20200106", "run_history_20200106"]);
    forget(&farm.db, Retention::default(), LONG).await.unwrap();
    farm.says(
        "SELECT kind FROM farmhand.event WHERE job_id IS NULL",
        Some("young"),
    )
    .await;
    farm.is("SELECT count(*) FROM farmhand.run_history", 1).await;
}

#[tokio::test]
async fn a_partition_in_use_is_left_for_the_next_call() {
    let farm = Farm::new().await;
    farm.exec(
        "CREATE TABLE farmhand.event_20200106 PARTITION OF farmhand.event
                 FOR VALUES FROM ('2020-01-06Z') TO ('2020-01-13Z')",
    )
    .await;
    let reader = farm.test.client().await;
    reader.exec("BEGIN; SELECT 1 FROM farmhand.event_20200106").await;
    assert!(
        drop_older_than(&farm.db, Retention::default())
            .await
            .unwrap()
            .is_empty()
    );
    reader.exec("COMMIT").await;
    assert_eq!(
        drop_older_than(&farm.db, Retention::default()).await.unwrap(),
        ["event_20200106"]
    );
}

#[tokio::test]
async fn what_is_too_old_goes_in_sets_and_holds_no_lock_of_a_drop_meanwhile() {
    let farm = Farm::new().await;
    farm.exec(
        "CREATE TABLE farmhand.attempt_20200106 PARTITION OF farmhand.attempt
                 FOR VALUES FROM ('2020-01-06Z') TO ('2020-01-13Z');
             INSERT INTO farmhand.event (at, kind, severity)
                 SELECT '2019-01-01Z', 'in the net', 'info' FROM generate_series(1, 25000);
             INSERT INTO farmhand.event (at, kind, severity) VALUES ('2019-01-01Z', 'held', 'info');
             INSERT INTO farmhand.task (run_id, attempt, task, outcome, ended_at, stored_at)
                 SELECT i, 1, 't', 'succeeded', '2019-01-01Z', '2019-01-01Z' FROM generate_series(1, 25000) i;
             CREATE TABLE public.trimmed (locks bigint);
             CREATE FUNCTION public.count_trimmed() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 INSERT INTO public.trimmed SELECT count(*) FROM pg_locks
                     WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock' AND locktype = 'relation';
                 RETURN NULL;
             END $$;
             CREATE TRIGGER count_trimmed AFTER DELETE ON farmhand.event_default
                 FOR EACH STATEMENT EXECUTE FUNCTION public.count_trimmed();
             GRANT INSERT ON public.trimmed TO PUBLIC",
    )
    .await;
    let holder = farm.test.client().await;
    holder
        .exec("BEGIN; SELECT FROM farmhand.event_default WHERE kind = 'held' FOR UPDATE")
        .await;
    forget(&farm.db, Retention::default(), LONG).await.unwrap();
    farm.is("SELECT count(*) FROM farmhand.task", 0).await;
    assert_eq!(
        farm.i64("SELECT count(*) FROM farmhand.event_default").await,
        1,
        "what somebody holds is left"
    );
    farm.is(
        "SELECT count(*) FROM pg_class WHERE relname = 'attempt_20200106'",
        0,
    )
    .await;
    holder.exec("COMMIT").await;
    forget(&farm.db, Retention::default(), LONG).await.unwrap();
    farm.is("SELECT count(*) FROM farmhand.event_default", 0).await;
    assert_eq!(
        farm.i64("SELECT count(*) FROM public.trimmed").await,
        6,
        "three sets and one that finds nothing, then one and one"
    );
    farm.is("SELECT count(*) FROM public.trimmed WHERE locks > 0", 0)
        .await;
}

#[tokio::test]
async fn a_step_that_fails_is_told_and_keeps_no_other_from_its_work() {
    let farm = Farm::new().await;
    farm.exec(
        "CREATE TABLE farmhand.event_20200106 PARTITION OF farmhand.event
             FOR VALUES FROM ('2020-01-06Z') TO ('2020-01-13Z');
         INSERT INTO farmhand.task (run_id, attempt, task, outcome, ended_at, stored_at)
             VALUES (1, 1, 't', 'succeeded', '2019-01-01Z', '2019-01-01Z');
         INSERT INTO farmhand.submission (job_id, idempotency_key, run_id, at) VALUES ('j', 'k', 1, '2019-01-01Z')"
    ).await;
    let locker = farm.test.client().await;
    locker.exec("BEGIN; LOCK TABLE farmhand.stream_item").await;
    let hasty = Db::connect(&farm.test.config().with_timeouts(SHORT, SHORT))
        .await
        .unwrap();
    let error = forget(&hasty, Retention::default(), LONG).await.unwrap_err();
    assert!(error.to_string().contains("drop_items"), "{error}");
    for gone in [
        "SELECT count(*) FROM pg_class WHERE relname = 'event_20200106'",
        "SELECT count(*) FROM farmhand.task",
        "SELECT count(*) FROM farmhand.submission",
    ] {
        assert_eq!(farm.i64(gone).await, 0, "{gone}");
    }
    locker.exec("COMMIT").await;
}

#[tokio::test]
async fn what_a_living_run_reported_is_kept_and_what_others_did_goes_however_many() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    farm.exec(&format!(
            "INSERT INTO farmhand.progress (run_id, attempt, at)
                 SELECT i, 1, '2019-01-01Z' FROM generate_series(1000000, 1015000) i;
             INSERT INTO farmhand.progress (run_id, attempt, at) VALUES ({}, 1, '2019-01-01Z'), (2000000, 1, now())",
            run.run_id
        )).await;
    forget(&farm.db, Retention::default(), LONG).await.unwrap();
    farm.is("SELECT count(*) FROM farmhand.progress", 2).await;
}
