use farmhand_tests::acting::anna;
use std::time::{Duration, Instant};

use farmhand_core::definition::{JobSpec, Overlap};
use farmhand_core::due::{SkipFold, SkipReason};
use farmhand_store::Note;
use farmhand_store::protocol::{Fire, claim, fire, fire_for, jobs_since, overdue};
use jiff::Timestamp;

use crate::fixture::{Farm, firing, listening, past, spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_racing_agents_fire_each_instant_once() {
    let farm = Farm::new().await;
    let at = past(60);
    for n in 0..50 {
        farm.job(&format!("j{n}"), spec(), Some(at)).await;
    }
    let fires: Vec<_> = (0..50).map(|n| firing(&format!("j{n}"), 1, at, &[at])).collect();
    let mut racers = Vec::new();
    for n in 0..8_usize {
        let db = farm.test.db().await;
        let mut fires = fires.clone();
        fires.rotate_left(n * 7);
        racers.push(tokio::spawn(async move {
            let mut made = 0;
            // Again, for what others held locked: nobody may fire it a second time.
            for _ in 0..3 {
                let fired = fire(&db, &fires).await.unwrap();
                made += fired.iter().map(|f| f.run_ids.len()).sum::<usize>();
            }
            made
        }));
    }
    let mut made = 0;
    for racer in racers {
        made += racer.await.unwrap();
    }
    assert_eq!(made, 50);
    farm.is("SELECT count(*) FROM farmhand.run_live", 50).await;
    farm.is("SELECT count(DISTINCT job_id) FROM farmhand.run_live", 50)
        .await;
}

#[tokio::test]
async fn the_farm_is_told_of_runs_that_their_firer_has_no_room_for_and_of_no_others() {
    let farm = Farm::new().await;
    let at = past(60);
    for job in ["one", "two", "three"] {
        farm.job(job, spec(), Some(at)).await;
    }
    let (_keeper, mut notes) = listening(&farm).await;
    let fires = |jobs: &[&str]| -> Vec<_> { jobs.iter().map(|job| firing(job, 1, at, &[at])).collect() };
    assert_eq!(fire_for(&farm.db, &fires(&["one"]), 1).await.unwrap().len(), 1);
    assert_eq!(
        fire_for(&farm.db, &fires(&["two", "three"]), 1)
            .await
            .unwrap()
            .len(),
        2
    );
    let told = notes.recv().await;
    assert!(matches!(told, Some(Note::Due { runs: 2, .. })), "{told:?}");
}

#[tokio::test]
async fn the_farm_is_told_of_a_run_that_is_not_for_everybody_whoever_has_room() {
    let farm = Farm::new().await;
    let at = past(60);
    let shards = JobSpec {
        instances: 2,
        ..spec()
    };
    farm.job("shards", shards, Some(at)).await;
    let (_keeper, mut notes) = listening(&farm).await;
    fire_for(&farm.db, &[firing("shards", 1, at, &[at])], 8)
        .await
        .unwrap();
    assert!(matches!(notes.recv().await, Some(Note::Due { runs: 2, .. })));
}

#[tokio::test]
async fn ten_thousand_jobs_due_at_one_instant_are_ten_statements() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let at = past(60);
    let changes: Vec<_> = (0..10_000)
        .map(|n| farmhand_store::jobs::JobChange {
            job_id: format!("j{n:05}"),
            spec: spec(),
            next_run: Some(at),
            source: "test.toml".to_owned(),
        })
        .collect();
    farmhand_store::jobs::apply(&anna(&farm.owner), &changes, false, "tester")
        .await
        .unwrap();
    assert_eq!(jobs_since(&farm.db, 0).await.unwrap().len(), 10_000);
    let due = overdue(&farm.db, 20_000).await.unwrap();
    assert_eq!(due.len(), 10_000);

    let fires: Vec<_> = due
        .iter()
        .map(|d| firing(&d.job_id, d.rev, d.next_run, &[d.next_run]))
        .collect();
    let mut slowest = Duration::ZERO;
    let mut made = 0;
    for set in fires.chunks(1000) {
        let start = Instant::now();
        made += fire(&farm.db, set)
            .await
            .unwrap()
            .iter()
            .map(|f| f.run_ids.len())
            .sum::<usize>();
        slowest = slowest.max(start.elapsed());
    }
    assert_eq!(made, 10_000);
    eprintln!("slowest set of 1,000: {slowest:?}");
    // Far above what it takes, for a loaded machine.
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");

    let start = Instant::now();
    let mut claimed = 0;
    loop {
        let got = claim(&farm.db, &me, 1000, None).await.unwrap().len();
        claimed += got;
        if got == 0 {
            break;
        }
    }
    eprintln!("claimed {claimed} in {:?}", start.elapsed());
    assert_eq!(claimed, 10_000);
}

/// How many jobs fire as `plan` says.
async fn jobs_fired(farm: &Farm, plan: Fire) -> usize {
    fire(&farm.db, &[plan]).await.unwrap().len()
}

#[tokio::test]
async fn nothing_fires_that_is_not_as_it_was_seen() {
    let farm = Farm::new().await;
    let (at, later) = (past(60), past(30));
    farm.job("j", spec(), Some(at)).await;
    // Another next_run.
    assert_eq!(jobs_fired(&farm, firing("j", 1, later, &[later])).await, 0);
    // Another revision.
    assert_eq!(jobs_fired(&farm, firing("j", 2, at, &[at])).await, 0);
    // Unknown.
    assert_eq!(jobs_fired(&farm, firing("k", 1, at, &[at])).await, 0);
    // Twice.
    assert_eq!(jobs_fired(&farm, firing("j", 1, at, &[at])).await, 1);
    assert_eq!(jobs_fired(&farm, firing("j", 1, at, &[at])).await, 0);
    farm.is("SELECT count(*) FROM farmhand.run_live", 1).await;
}

#[tokio::test]
async fn nothing_fires_before_its_time_by_the_servers_clock() {
    let farm = Farm::new().await;
    let soon = past(-60);
    farm.job("j", spec(), Some(soon)).await;
    assert_eq!(jobs_fired(&farm, firing("j", 1, soon, &[soon])).await, 0);
    assert!(overdue(&farm.db, 10).await.unwrap().is_empty());
}

/// What withholds a job takes its next instant away, too; each is enough alone.
#[tokio::test]
async fn a_job_that_is_withheld_fires_nothing_even_if_it_has_a_next_instant() {
    let farm = Farm::new().await;
    let at = past(60);
    farm.job("j", spec(), Some(at)).await;
    let none = async |withheld: &str| {
        let sql = format!(
            "UPDATE farmhand.job SET paused = false, enabled = true, deleted = false, scheduled = true;
            UPDATE farmhand.job SET {withheld}"
        );
        farm.exec(&sql).await;
        let fired = fire(&farm.db, &[firing("j", 1, at, &[at])]).await.unwrap();
        fired.is_empty()
    };
    for withheld in [
        "paused = true",
        "enabled = false",
        "deleted = true",
        "scheduled = false",
    ] {
        assert!(none(withheld).await, "{withheld}");
    }
    assert!(!none("paused = false").await);
}

#[tokio::test]
async fn a_firing_decides_every_instant_it_passes() {
    let farm = Farm::new().await;
    let at = past(600);
    farm.job("j", spec(), Some(at)).await;
    let latest = past(60);
    let mut missed = firing("j", 1, at, &[latest]);
    missed.skipped = vec![SkipFold {
        reason: SkipReason::Missed,
        first: at,
        last: past(120),
        count: 9,
    }];
    let fired = fire(&farm.db, &[missed]).await.unwrap();
    assert_eq!(fired[0].run_ids.len(), 1);
    assert_eq!(
        (fired[0].skipped[0].reason.as_str(), fired[0].skipped.len()),
        ("missed", 1)
    );
    let row = farm
        .sql
        .query_one(
            "SELECT state, reason, first_due, last_due, count FROM farmhand.run_history",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, &str>(1)),
        ("skipped", "missed")
    );
    assert_eq!(row.get::<_, Timestamp>(2), at);
    assert_eq!(row.get::<_, i64>(4), 9);
    let decided: Timestamp = farm.sql.value("SELECT decided_until FROM farmhand.job").await;
    assert_eq!(decided, latest);
}

#[tokio::test]
async fn the_last_instant_of_a_schedule_ends_it() {
    let farm = Farm::new().await;
    let at = past(60);
    farm.job("j", spec(), Some(at)).await;
    let mut last = firing("j", 1, at, &[at]);
    last.following = None;
    assert_eq!(fire(&farm.db, &[last]).await.unwrap().len(), 1);
    assert!(overdue(&farm.db, 10).await.unwrap().is_empty());
    farm.says("SELECT next_run::text FROM farmhand.job", None).await;
}

#[tokio::test]
async fn a_scheduled_job_without_a_next_run_cannot_exist() {
    let farm = Farm::new().await;
    farm.job("j", spec(), Some(past(60))).await;
    let refused = farm
        .sql
        .batch_execute("UPDATE farmhand.job SET next_run = NULL")
        .await
        .unwrap_err();
    assert_eq!(
        refused.code(),
        Some(&tokio_postgres::error::SqlState::CHECK_VIOLATION)
    );
}

#[tokio::test]
async fn shards_fire_together_and_each_instant_once() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let at = past(60);
    farm.job(
        "j",
        JobSpec {
            instances: 8,
            ..spec()
        },
        Some(at),
    )
    .await;
    assert_eq!(farm.fire_at("j", at, &[at]).await[0].run_ids.len(), 8);
    let mut shards: Vec<_> = claim(&farm.db, &me, 9, None)
        .await
        .unwrap()
        .iter()
        .map(|c| (c.instance, c.instances))
        .collect();
    shards.sort_unstable();
    assert_eq!(shards, (0..8).map(|i| (i, 8)).collect::<Vec<_>>());

    // A database restored to before the firing: the instant has its runs.
    farm.sql
        .exec_with(
            "UPDATE farmhand.job SET next_run = $1, decided_until = NULL",
            &[&at],
        )
        .await;
    farm.exec("UPDATE farmhand.job SET overlap = 'allow'").await;
    assert_eq!(farm.fire_at("j", at, &[at]).await[0].run_ids.len(), 0);
    farm.is("SELECT count(*) FROM farmhand.run_live", 8).await;
}

#[tokio::test]
async fn an_each_node_job_without_a_ready_node_is_skipped_by_name() {
    let farm = Farm::new().await;
    let at = past(60);
    let each = JobSpec {
        run_on: farmhand_core::definition::RunOn::EachNode,
        overlap: Overlap::Allow,
        ..spec()
    };
    farm.job("j", each, Some(at)).await;
    let fired = farm.fire_at("j", at, &[at]).await;
    assert_eq!(fired[0].skipped[0].reason, "no_node");
    farm.is("SELECT count(*) FROM farmhand.run WHERE state = 'skipped'", 1)
        .await;
}

#[tokio::test]
async fn of_two_plans_of_one_job_in_a_set_the_one_for_what_is_due_is_carried_out() {
    let farm = Farm::new().await;
    let (first, second) = (past(120), past(60));
    farm.job("j", spec(), Some(first)).await;
    let mut fires = [firing("j", 1, first, &[first]), firing("j", 1, second, &[second])];
    fires[0].following = Some(second);
    let instants = "SELECT count(*) FROM farmhand.run";
    for made in [1, 2] {
        assert_eq!(fire(&farm.db, &fires).await.unwrap().len(), 1);
        farm.is(instants, made).await;
    }
    assert!(fire(&farm.db, &fires).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_run_of_a_job_with_a_spread_is_ready_when_it_fires_and_due_at_its_instant() {
    let farm = Farm::new().await;
    let (me, at) = (farm.node("a").await, past(60));
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    farm.job("spread", spec(), Some(at)).await;
    farm.job("soon", spec(), Some(now)).await;
    let late = |job: &str, at: Timestamp, late_ms| Fire {
        late_ms,
        ..firing(job, 1, at, &[at])
    };
    // Whoever fires claims at once: what is fired too early is not kept back.
    let fires = [late("spread", at, 350), late("soon", now, 600_000)];
    assert_eq!(fire(&farm.db, &fires).await.unwrap().len(), 2);
    let claimed = claim(&farm.db, &me, 9, None).await.unwrap();
    let of = |job: &str| claimed.iter().find(|run| run.job_id == job).unwrap();
    assert_eq!(of("spread").due_at, at);
    assert_eq!(of("spread").ready_at, at + jiff::SignedDuration::from_millis(350));
    assert_eq!(of("soon").due_at, now);
    assert!(of("soon").ready_at <= Timestamp::now());
}
