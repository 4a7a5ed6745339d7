use std::time::Duration;

use farmhand_core::definition::JobSpec;
use farmhand_core::lease::MarksBelow;
use farmhand_core::run::RunState;
use farmhand_store::StoreError;
use farmhand_store::protocol::{Finish, Fire, claim, close, finish, fire, poll};
use farmhand_store::reading;
use farmhand_store::snapshot::{FarmSnapshot, Stand, release, specs, stand, take};
use uuid::Uuid;

use crate::fixture::{Farm, expire_now, firing, past, spec, success};
use crate::notify::{farm_with, hook, told};

const LIMIT: Duration = Duration::from_secs(5);
/// Between two looks for missed deadlines.
const TURN: Option<Duration> = Some(Duration::from_secs(13));

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

async fn snapshot(farm: &Farm, max_jobs: i64) -> FarmSnapshot {
    let seen = stand(&farm.db).await.unwrap();
    let taken = take(&farm.db, seen.holder, "a", seen, TURN, LIMIT, max_jobs).await;
    taken.unwrap().expect("the lease")
}

#[tokio::test]
async fn the_lease_goes_to_its_holder_and_to_a_challenger_that_saw_its_latest_renewal() {
    let farm = Farm::new().await;
    let nobody = stand(&farm.db).await.unwrap();
    let first = async |me: u128, seen: Stand| {
        let taken = take(&farm.db, id(me), "a", seen, TURN, LIMIT, 10).await.unwrap();
        taken.is_some()
    };
    assert!(first(1, nobody).await);
    assert!(!first(2, nobody).await, "it moved on");
    assert!(first(1, nobody).await, "the holder renews whatever it saw");
    let seen = stand(&farm.db).await.unwrap();
    assert_eq!((seen.holder, seen.renewals), (id(1), 2));
    assert!(first(2, seen).await);
    assert!(!first(1, seen).await, "the old holder has lost it");
    release(&farm.db, id(1)).await.unwrap();
    assert_eq!(stand(&farm.db).await.unwrap().holder, id(2), "not its to release");
    release(&farm.db, id(2)).await.unwrap();
    assert!(stand(&farm.db).await.unwrap().holder.is_nil());
}

#[tokio::test]
async fn of_many_challengers_at_once_one_wins() {
    let farm = Farm::new().await;
    let seen = stand(&farm.db).await.unwrap();
    let tries = (1..=8).map(|n| {
        let db = farm.db.clone();
        tokio::spawn(async move {
            take(&db, id(n), "a", seen, TURN, LIMIT, 10)
                .await
                .unwrap()
                .is_some()
        })
    });
    let mut won = 0;
    for t in tries.collect::<Vec<_>>() {
        won += usize::from(t.await.unwrap());
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn nodes_and_queue_are_counted_by_state_and_a_lost_node_is_named_until_it_comes_back() {
    let farm = Farm::new().await;
    let (a, b, c) = (farm.node("a").await, farm.node("b").await, farm.node("c").await);
    let at = past(60);
    farm.job("j", spec(), Some(at)).await;
    farm.fire_at("j", at, &[at]).await;
    farm.held_run(&a, "held", spec()).await;
    expire_now(&farm, &b).await;
    close(&farm.db, &c).await.unwrap();
    let seen = snapshot(&farm, 10).await;
    let of = |map: &std::collections::BTreeMap<String, i64>| format!("{map:?}");
    assert_eq!(of(&seen.nodes), r#"{"closed": 1, "lost": 1, "ready": 1}"#);
    assert_eq!(of(&seen.queue), r#"{"due": 1, "running": 1}"#);
    assert!(seen.oldest_due_age >= 59.0, "{seen:?}");
    assert_eq!(seen.missing.len(), 1);
    assert_eq!(seen.missing[0].address, "b");
    farm.node("b").await;
    assert!(snapshot(&farm, 10).await.missing.is_empty());
}

#[tokio::test]
async fn a_lease_is_expired_stalled_or_overrun_and_says_since_when() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let set = async |sql: &str| farm.exec(sql).await;
    let state = async || {
        let seen = snapshot(&farm, 10).await;
        let stuck = seen.stuck.first().map(|s| (s.state.clone(), s.age.round()));
        assert_eq!(seen.stuck.len(), usize::from(stuck.is_some()), "{seen:?}");
        stuck
    };
    // At least so old, and no older than this test may be on a busy machine.
    let is = async |wanted: &str, least: f64| {
        let (state, age) = state().await.expect(wanted);
        assert_eq!(state, wanted);
        assert!((least..least + 30.0).contains(&age), "{wanted} for {age} s");
    };
    assert_eq!(state().await, None);
    set("UPDATE farmhand.run_live SET claimed_at = now() - interval '45 s', hard_ms = 15000").await;
    is("stalled", 40.0).await; // It never started, and is one run.
    set("UPDATE farmhand.run_live SET started_at = now(), hard_ms = NULL").await;
    assert_eq!(state().await, None);
    set("UPDATE farmhand.run_live SET hard_ms = 15000").await;
    is("overrun", 30.0).await;
    set("UPDATE farmhand.node SET lease_until = now() - interval '20 s'").await;
    is("expired", 20.0).await;
    set("UPDATE farmhand.node SET session = session + 1, open = false").await;
    is("stalled", 20.0).await;
    assert_eq!(run.attempt, 1);
}

#[tokio::test]
async fn jobs_beyond_the_ceiling_are_counted_and_those_in_trouble_come_first() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    for n in 0..5 {
        farm.job(&format!("a{n}"), spec(), Some(later)).await;
    }
    let failed = |run: &farmhand_store::protocol::Claimed| Finish {
        state: RunState::Failed,
        ..success(&me, run)
    };
    let run = farm.held_run(&me, "z-fails", spec()).await;
    finish(&farm.db, &[failed(&run)]).await.unwrap();
    farm.held_run(&me, "z-lost", spec()).await;
    expire_now(&farm, &me).await;
    let seen = snapshot(&farm, 3).await;
    let names: Vec<&str> = seen.jobs.iter().map(|j| j.job_id.as_str()).collect();
    assert_eq!(names, ["z-fails", "z-lost", "a0"]);
    assert_eq!(seen.jobs_left_out, 4);
    let of = |n: usize| (seen.jobs[n].consecutive_failures, seen.jobs[n].recent_takeovers);
    assert_eq!((of(0), of(1), of(2)), ((1, 0), (0, 1), (0, 0)));
    let wanted: Vec<(&str, i64)> = seen.jobs.iter().map(|j| (j.job_id.as_str(), j.rev)).collect();
    assert_eq!(specs(&farm.db, &wanted).await.unwrap().len(), 3);
    assert_eq!(specs(&farm.db, &[("gone", 1)]).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_snapshot_held_open_elsewhere_is_seen() {
    let farm = Farm::new().await;
    let other = farm.test.client().await;
    other
        .exec("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM farmhand.node")
        .await;
    for _ in 0..3 {
        farm.i64("SELECT nextval('farmhand.run_id_seq') + txid_current()")
            .await;
    }
    let (transactions, seconds) = snapshot(&farm, 1).await.oldest_snapshot;
    assert!(transactions >= 3 && seconds > 0.0, "{transactions} {seconds}");
}

/// A slot and a standby do not say since when they keep what they keep.
#[tokio::test]
async fn of_what_is_held_open_the_most_transactions_and_the_most_seconds_are_seen() {
    let farm = Farm::new().await;
    let (older, other) = (farm.test.client().await, farm.test.client().await);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    older.exec(begin).await;
    other.exec(begin).await;
    other.exec("SELECT FROM farmhand.node").await;
    for _ in 0..3 {
        farm.i64("SELECT nextval('farmhand.run_id_seq') + txid_current()")
            .await;
    }
    // The first to begin keeps the fewest.
    older.exec("SELECT FROM farmhand.node").await;
    let held = "FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
        AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()";
    let most = farm
        .i64_of_sessions(&format!("SELECT max(age(backend_xmin))::bigint {held}"))
        .await;
    let longest = format!(
        "SELECT floor(extract(epoch FROM clock_timestamp() - min(xact_start)) * 1000)::bigint {held}"
    );
    let longest = farm.i64_of_sessions(&longest).await;
    let (transactions, seconds) = snapshot(&farm, 1).await.oldest_snapshot;
    assert!(transactions >= most, "{transactions} of {most}");
    assert!(seconds * 1000.0 >= longest as f64, "{seconds} s of {longest} ms");
}

/// Rows as agents write them, so that a death is one whatever it ended.
#[tokio::test]
async fn what_a_job_lost_with_one_death_counts_once() {
    let farm = Farm::new().await;
    farm.job("j", spec(), None).await;
    let deaths = async || snapshot(&farm, 10).await.jobs[0].recent_takeovers;
    let lost = async |run: i64, attempt: i32, session: i64| {
        let sql = "INSERT INTO farmhand.attempt (run_id, job_id, attempt, address, session, fence, claimed_at, ended_at, outcome,
                ended_by)
            VALUES ($1, 'j', $2, 'a', $3, 1, now(), now(), 'lost', 'holder')";
        farm.sql.exec_with(sql, &[&run, &attempt, &session]).await;
    };
    for run in 1..=3 {
        lost(run, 1, 1).await;
    }
    assert_eq!(deaths().await, 1, "three runs of one node");
    lost(1, 2, 2).await;
    assert_eq!(deaths().await, 2, "its next session");
    // A warden dies, and its agent goes on.
    lost(1, 3, 2).await;
    lost(1, 4, 2).await;
    assert_eq!(deaths().await, 4, "each ended the run once");
}

#[tokio::test]
async fn a_run_that_was_taken_over_is_as_old_as_the_page_says() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    farm.exec("UPDATE farmhand.run_live SET ready_at = now() - interval '1 hour'")
        .await;
    expire_now(&farm, &me).await;
    let seen = snapshot(&farm, 10).await;
    let page = reading::farm(&farm.db)
        .await
        .unwrap()
        .oldest_due
        .expect("it waits");
    assert_eq!(page.run_id, run.run_id);
    let since = seen.at - seen.oldest_due_age;
    let page = page.ready_at.as_millisecond() as f64 / 1000.0;
    assert!(
        (since - page).abs() < 60.0,
        "since {since}, on the page since {page}"
    );
}

#[tokio::test]
async fn the_oldest_message_that_waits_is_told() {
    let farm = Farm::new().await;
    let age = async || snapshot(&farm, 10).await.oldest_notification_age;
    assert_eq!(age().await, 0.0);
    let sql = "INSERT INTO farmhand.notification (target, channel, topic, key, body, created_at)
        VALUES ('ops', 'webhook', 'failure', 'a', '{}', now() - interval '20 min'), ('ops', 'email', 'failure', 'b', '{}', now())";
    farm.exec(sql).await;
    let waits = age().await;
    assert!((1_200.0..2_400.0).contains(&waits), "{waits}");
    let ends = "UPDATE farmhand.notification SET state = 'delivered', ended_at = now()";
    farm.exec(ends).await;
    assert_eq!(age().await, 0.0);
}

#[tokio::test]
async fn a_snapshot_that_takes_too_long_is_ended_on_both_sides_and_the_lease_not_renewed() {
    let farm = Farm::new().await;
    let seen = stand(&farm.db).await.unwrap();
    let lock = farm.test.client().await;
    lock.exec("BEGIN; LOCK TABLE farmhand.run_live IN ACCESS EXCLUSIVE MODE")
        .await;
    let began = std::time::Instant::now();
    let limit = Duration::from_millis(500);
    let error = take(&farm.db, id(1), "a", seen, TURN, limit, 10)
        .await
        .unwrap_err();
    assert!(
        matches!(error, StoreError::TimedOut { .. } | StoreError::Sql { .. }),
        "{error}"
    );
    // Other statements are given up after ten seconds.
    assert!(began.elapsed() < Duration::from_secs(8));
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND state = 'active' AND pid <> pg_backend_pid()";
    for _ in 0..200 {
        if farm.i64_of_sessions(busy).await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        farm.i64_of_sessions(busy).await,
        0,
        "nothing goes on at the server"
    );
    assert_eq!(stand(&farm.db).await.unwrap(), seen);
}

#[tokio::test]
async fn of_the_history_only_the_index_of_lost_attempts_is_read() {
    let farm = Farm::new().await;
    farm.exec(
        "INSERT INTO farmhand.attempt (run_id, job_id, attempt, address, session, fence, claimed_at, ended_at,
            outcome, ended_by)
         SELECT i, 'j', 1, 'a', 1, i, now(), now() - i * interval '10 s',
            CASE WHEN i % 10 = 0 THEN 'lost' ELSE 'failed' END, 'holder' FROM generate_series(1, 50000) i;
         ANALYZE farmhand.attempt"
    ).await;
    let jobs = include_str!("../../common/store/src/sql/snapshot_jobs.sql").replace("$2", "1000");
    let whole = include_str!("../../common/store/src/sql/snapshot_farm.sql").replace("$1", "100");
    for (statement, counts) in [(jobs, true), (whole, false)] {
        let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {statement}");
        let rows = farm.sql.query(&explain, &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|r| r.get(0)).collect();
        let plan = plan.join("\n");
        assert!(!plan.contains("run_history"), "{plan}");
        // A scan without the index would read rows and throw them away.
        assert!(!(counts && plan.contains("Rows Removed")), "{plan}");
    }
}

#[tokio::test]
async fn the_last_instants_of_a_schedule_are_waited_for_until_the_job_succeeds() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let waits = async || {
        let points = snapshot(&farm, 10).await.jobs;
        points.iter().find(|p| p.job_id == "j").unwrap().waits
    };
    farm.job("j", spec(), Some(past(60))).await;
    let last = Fire {
        following: None,
        ..firing("j", 1, past(60), &[past(60)])
    };
    fire(&farm.db, &[last]).await.unwrap();
    farm.exec("UPDATE farmhand.job SET applied_at = now() - interval '1 hour'")
        .await;
    assert!(waits().await, "for the last instant");
    let run = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    finish(&farm.db, &[success(&me, &run)]).await.unwrap();
    assert!(!waits().await);
}

#[tokio::test]
async fn who_exposes_the_farm_looks_for_missed_deadlines_where_somebody_wants_to_hear_of_them() {
    let farm = farm_with(hook()).await;
    let me = farm.node("a").await;
    let watch = async || snapshot(&farm, 10).await.watch;
    let polled = async || {
        let seen = poll(&farm.db, &me, &MarksBelow::default()).await.unwrap();
        seen.watched_at
    };
    assert_eq!(
        (watch().await, polled().await),
        (None, None),
        "no job tells anybody"
    );
    let scheduled = JobSpec {
        schedule: vec!["0 * * * *".to_owned()],
        ..told()
    };
    farm.job("j", scheduled, Some(past(-3600))).await;
    assert!(polled().await.unwrap() < past(3600), "never looked for");
    let outdated = Stand {
        holder: id(9),
        renewals: 0,
    };
    let taken = take(&farm.db, id(8), "b", outdated, TURN, LIMIT, 10)
        .await
        .unwrap();
    assert_eq!(taken, None, "the lease, and so the turn, is another's");
    let own = stand(&farm.db).await.unwrap();
    let left = take(&farm.db, own.holder, "a", own, None, LIMIT, 10).await;
    assert_eq!(left.unwrap().expect("the lease").watch, None, "left to others");
    let seen = watch().await.expect("its turn");
    assert_eq!((seen.jobs.len(), seen.jobs[0].point.job_id.as_str()), (1, "j"));
    assert!(polled().await.unwrap() > past(60));
    assert_eq!(watch().await, None, "it has just been done");
}

#[tokio::test]
async fn a_time_that_no_client_could_read_keeps_nobody_from_reading_the_farm() {
    let farm = farm_with(hook()).await;
    for job in ["far", "j"] {
        farm.job(job, told(), None).await;
    }
    let write = "
        UPDATE farmhand.job SET next_run = 'infinity', applied_at = '12345-01-01Z' WHERE job_id = 'far';
        INSERT INTO farmhand.notify_episode (job_id, late_since) VALUES ('far', '-infinity')";
    farm.exec(write).await;
    let seen = snapshot(&farm, 10).await;
    let watched = seen.watch.expect("its turn").jobs;
    let far = &watched[0].point;
    assert_eq!((seen.jobs.len(), watched.len()), (2, 2));
    assert_eq!((far.job_id.as_str(), far.next_run), ("far", Some(far.since)));
    assert!(far.since > past(0), "{far:?}");
    assert!(watched[0].late_since.unwrap() < past(3600));
}
