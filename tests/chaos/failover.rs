//! The primary dies for good and its standby is promoted: the agents find it by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_tests::farm::{Database, Farm, SOON, TTL};
use farmhand_tests::pg::{Options, PrivateServer, url_of};
use farmhand_tests::witness::{What, boot_ns};

/// What a challenger waits beyond a lease, and so an agent before it opens an epoch.
const MARGIN: Duration = Duration::from_millis(200);
/// The first fence of the second epoch.
const SECOND: i64 = 2 << 40;

const JOBS: &str = "
    [job.long]
    command = [WITNESS, '8000']
    [job.short]
    command = [WITNESS, '100']
    [job.tick]
    schedule = '* * * * * *'
    catch_up.runs = 'all'
    overlap = 'allow'
    command = [WITNESS, '20']
";

/// A farm whose agents know both servers, and the standby.
async fn farm(agents: usize, ttl: Duration, synchronous: bool) -> (Farm, PrivateServer) {
    let primary = PrivateServer::start(Options::default()).await;
    let standby = primary.replica("s1").await;
    if synchronous {
        primary.wait_for_replica("s1").await;
    }
    let url = url_of(&[&primary, &standby]);
    let farm = Farm::new()
        .agents(agents)
        .ttl(ttl)
        .on(primary)
        .url(url)
        .jobs(JOBS)
        .start()
        .await;
    (farm, standby)
}

/// Promotes the standby and makes it the farm's database; returns when that began.
async fn fail_over(farm: &mut Farm, standby: PrivateServer) -> u64 {
    let began = boot_ns();
    standby.promote().await;
    farm.database = Database::from(standby);
    farm.sql = farm.database.client().await;
    began
}

/// Waits until an agent has opened the second epoch, and checks that it did not do so too early.
async fn opened(farm: &Farm, began: u64, ttl: Duration) {
    let sql = "SELECT count(*) FROM farmhand.epoch WHERE epoch = 2";
    farm.becomes(ttl + SOON, sql, 1_i64).await;
    let after = Duration::from_nanos(boot_ns() - began);
    assert!(after >= ttl + MARGIN, "opened after {after:?}");
}

/// The farm works in the new epoch, claimed nothing on it before it was opened, and left no instant out.
async fn works(farm: &Farm) {
    let short = farm.submit("short").await;
    assert!(farm.succeeds(short).await.fence.is_some_and(|f| f >= SECOND));
    let early: i64 = farm
        .value(&format!(
            "SELECT count(*) FROM farmhand.run_history h, farmhand.epoch e
             WHERE e.epoch = 2 AND h.fence >= {SECOND} AND h.claimed_at < e.opened_at"
        ))
        .await;
    assert_eq!(early, 0, "claimed before the epoch was open");
    let due = "SELECT count(*) FROM (SELECT first_due - lag(last_due) OVER (ORDER BY first_due) AS gap
        FROM farmhand.run WHERE job_id = 'tick') g WHERE gap <> interval '1 second'";
    assert_eq!(
        farm.value::<i64>(due).await,
        0,
        "an instant without its outcome, or with two"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_outlives_a_failover_goes_on_and_nothing_is_lost_or_runs_twice() {
    // Long enough for a promotion on a busy machine: of 12 s, a lease leaves 6 s until commands are asked to end.
    let ttl = Duration::from_secs(24);
    let (mut farm, standby) = farm(2, ttl, true).await;
    let done = farm.submit("short").await;
    farm.succeeds(done).await;
    let long = farm.submit("long").await;
    let first = farm.lives(long, 1).await;
    farm.database.server().kill();
    let began = fail_over(&mut farm, standby).await;
    let before = farm.run(done).await;
    assert_eq!(before.state, "succeeded", "no acknowledged finish is lost");
    let long = farm.succeeds(long).await;
    assert_eq!((long.attempt, long.takeovers, long.fence), (1, 0, first.fence));
    opened(&farm, began, ttl).await;
    works(&farm).await;
    farm.event("epoch_changed").await;
    assert_eq!(farm.events("expired").await, 0);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_that_took_longer_than_the_lease_runs_are_taken_over_once() {
    let (mut farm, standby) = farm(2, TTL, true).await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.database.server().kill();
    let killed = boot_ns();
    let dead = |farm: &Farm| farm.processes_of_run(long).is_empty();
    farm.eventually("its lease ends it", TTL + SOON, async || {
        dead(&farm).then_some(()).ok_or_else(|| "it lives".to_owned())
    })
    .await;
    let life = farm.witness.life(long, 1);
    assert!(
        Duration::from_nanos(life.last - killed) < TTL,
        "it died with its lease"
    );
    let began = fail_over(&mut farm, standby).await;
    opened(&farm, began, TTL).await;
    let run = farm.succeeds(long).await;
    assert_eq!(run.attempt, 2, "{run:?}");
    assert!(run.fence.is_some_and(|f| f >= SECOND), "{run:?}");
    works(&farm).await;
    farm.check().await;
}

/// Submits a run that is due in a moment, and waits until the standby has it.
async fn due_on_both(farm: &Farm, standby: &PrivateServer, job: &str) -> i64 {
    let sql = "SELECT farmhand.submit($1, '{}', clock_timestamp() + interval '6 seconds')";
    let run_id: i64 = farm.sql.query_one(sql, &[&job]).await.expect("a run").get(0);
    let replica = standby.client().await;
    let there = "SELECT count(*) FROM farmhand.run_live WHERE run_id = $1 AND state = 'due'";
    farm.eventually("the standby has the run", SOON, async || {
        let row = replica.query_one(there, &[&run_id]).await.expect("a count");
        match row.get::<_, i64>(0) {
            1 => Ok(()),
            _ => Err("not yet".to_owned()),
        }
    })
    .await;
    run_id
}

/// The standby lacks the claim: the number of the attempt that runs is free again, and its end must fit nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_claim_the_failover_lost_is_ended_and_its_end_fits_no_other() {
    let ttl = Duration::from_secs(12);
    let (mut farm, standby) = farm(1, ttl, false).await;
    let long = due_on_both(&farm, &standby, "long").await;
    standby.cut_off().await;
    let lost = farm.lives(long, 1).await.fence.expect("a fence");
    farm.database.server().kill();
    let began = fail_over(&mut farm, standby).await;
    assert_eq!(farm.run(long).await.attempt, 0, "the claim is lost");
    opened(&farm, began, ttl).await;
    let run = farm.over(long, ttl + SOON).await;
    assert_eq!(run.state, "succeeded", "{run:?}");
    assert!(run.fence.is_some_and(|f| f >= SECOND), "{run:?}");
    works(&farm).await;
    let lives = lives_by_fence(&farm, long);
    let [(one, first), (two, second)] = lives.as_slice() else {
        panic!("two lives: {lives:?}")
    };
    assert_eq!((*one, Some(*two)), (lost, run.fence));
    assert!(!first.2 && second.2 && first.1 < second.0, "{lives:?}");
}

/// When each life of a run began and was last seen, and whether it ended. By fences, for a number may come twice.
fn lives_by_fence(farm: &Farm, run_id: i64) -> Vec<(i64, (u64, u64, bool))> {
    let mut lives: BTreeMap<i64, (u64, u64, bool)> = BTreeMap::new();
    for line in farm.witness.lines().iter().filter(|l| l.run == run_id) {
        let life = lives.entry(line.fence).or_insert((line.at, line.at, false));
        life.1 = line.at;
        life.2 |= line.what == What::End;
    }
    lives.into_iter().collect()
}

/// The standby lacks the claim, and the agent that made it never reaches the standby: its attempt lives for as long as its
/// lease allows. An agent with the shortest lease opens the next epoch.
async fn the_next_life_waits_for_one_that_the_failover_lost(job: &str, first_ttl: &str, lives_for: Duration) {
    let primary = PrivateServer::start(Options::default()).await;
    let standby = primary.replica("s1").await;
    let (only_primary, both) = (url_of(&[&primary]), url_of(&[&primary, &standby]));
    let mut farm = Farm::new()
        .agents(2)
        .on(primary)
        .url(both)
        .jobs("[job.plain]\ncommand = [WITNESS, '60000']\n")
        .prepare()
        .await;
    farm.agents[0].arguments[1] = first_ttl.to_owned();
    farm.agents[0]
        .env
        .push(("FARMHAND_DATABASE_URL".to_owned(), only_primary));
    farm.agents[0].start().await;
    let run_id = due_on_both(&farm, &standby, job).await;
    standby.cut_off().await;
    farm.lives(run_id, 1).await;
    farm.agents[1].start().await;
    farm.database.server().kill();
    let killed = boot_ns();
    fail_over(&mut farm, standby).await;
    farm.eventually("the run lives again", lives_for + SOON, async || {
        let lives = lives_by_fence(&farm, run_id);
        (lives.len() == 2)
            .then_some(())
            .ok_or_else(|| format!("{lives:?}"))
    })
    .await;
    let over = Duration::from_nanos(killed) + lives_for;
    tokio::time::sleep(over.saturating_sub(Duration::from_nanos(boot_ns()))).await;
    let lives = lives_by_fence(&farm, run_id);
    let (first, second) = (lives[0].1, lives[1].1);
    eprintln!(
        "the first life lasted for {:?}, the second began after {:?}",
        Duration::from_nanos(first.1 - killed),
        Duration::from_nanos(second.0.saturating_sub(killed))
    );
    assert!(lives[1].0 >= SECOND, "{lives:?}");
    assert!(first.1 < second.0, "{lives:?}");
    // Else the test shows nothing: the first life has to last for longer than the short lease.
    let lasted = Duration::from_nanos(first.1 - killed);
    assert!(lasted > TTL + MARGIN && lasted < lives_for, "{lasted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_is_not_opened_before_the_longest_lease_of_a_lost_claim_has_passed() {
    let longest = Duration::from_secs(14);
    the_next_life_waits_for_one_that_the_failover_lost("plain", "14s", longest).await;
}
