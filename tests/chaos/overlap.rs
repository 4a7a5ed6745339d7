//! `overlap` in its four ways, for schedules and by hand, with kill -9 of the holder in the middle.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_tests::farm::{Farm, Run, SOON};

/// For several runs one after the other, one of them twice.
const LONG: Duration = Duration::from_secs(120);

/// A job that fires every second and takes longer than that.
async fn every_second(overlap: &str) -> Farm {
    let job = format!(
        "[job.tick]\nschedule = '* * * * * *'\ncatch_up.runs = 'all'\noverlap = '{overlap}'\ngrace = '200ms'\n
         command = [WITNESS, '1300', 'daemon']\n"
    );
    Farm::new().agents(2).jobs(&job).start().await
}

/// Kills the holder of the first run that is alive, agent and wardens, and brings the node back.
async fn kill_a_holder(farm: &mut Farm) -> i64 {
    let held = farm
        .eventually("a run is alive", SOON, async || {
            let runs = farm.runs("tick").await;
            let held = runs.into_iter().find(|r| r.state == "running");
            held.filter(|r| farm.witness.has_just_begun(r.run_id))
                .ok_or_else(|| "none".to_owned())
        })
        .await;
    let home = held.running_at.expect("a node");
    farm.agent(&home).kill_with_wardens();
    farm.event("expired").await;
    farm.agent(&home).start().await;
    held.run_id
}

/// No more firing, and everything that was fired has ended.
async fn come_to_rest(farm: &Farm) -> Vec<Run> {
    farm.ok(&["job", "pause", "tick"]);
    farm.eventually("all have ended", LONG, async || {
        let runs = farm.runs("tick").await;
        match runs.iter().find(|r| !r.is_over()) {
            None => Ok(runs),
            Some(run) => Err(format!("{run:?} of {}", runs.len())),
        }
    })
    .await
}

/// From the first sign of life of each run to its last, in order.
fn spans(farm: &Farm) -> Vec<(u64, u64, i64)> {
    let mut spans: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
    for line in farm.witness.lines() {
        let span = spans.entry(line.run).or_insert((line.at, line.at));
        *span = (span.0.min(line.at), span.1.max(line.at));
    }
    let mut spans: Vec<_> = spans.into_iter().map(|(run, (a, b))| (a, b, run)).collect();
    spans.sort_unstable();
    spans
}

fn never_two_at_once(farm: &Farm) {
    for pair in spans(farm).windows(2) {
        assert!(
            pair[1].0 > pair[0].1,
            "runs {} and {} overlapped",
            pair[0].2,
            pair[1].2
        );
    }
}

/// Every instant from the first to the last has its outcome, as `Farm::check` has made sure of one at the most.
async fn every_instant_has_an_outcome(farm: &Farm) {
    let gaps: i64 = farm
        .value(
            "SELECT count(*) FROM (SELECT first_due - lag(last_due) OVER (ORDER BY first_due) AS gap
             FROM farmhand.run WHERE job_id = 'tick' AND kind = 'scheduled') g WHERE gap <> interval '1 second'",
        )
        .await;
    assert_eq!(gaps, 0, "{:?}", farm.runs("tick").await);
}

fn count(runs: &[Run], state: &str) -> usize {
    runs.iter().filter(|r| r.state == state).count()
}

async fn some(farm: &Farm, state: &str, wanted: usize) {
    farm.eventually(state, LONG, async || {
        match count(&farm.runs("tick").await, state) {
            n if n >= wanted => Ok(()),
            n => Err(format!("{n} {state}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replace_ends_the_earlier_run_also_when_its_holder_dies_before_it_can() {
    let mut farm = every_second("replace").await;
    let killed = kill_a_holder(&mut farm).await;
    // A later instant asked for its end; its holder could not give it, so the takeover did.
    let replaced = farm.over(killed, SOON).await;
    assert_eq!(
        (replaced.state.as_str(), replaced.attempt),
        ("cancelled", 1),
        "{replaced:?}"
    );
    some(&farm, "cancelled", 4).await;
    let runs = come_to_rest(&farm).await;
    assert_eq!(
        runs.last().map(|r| r.state.as_str()),
        Some("succeeded"),
        "{runs:?}"
    );
    never_two_at_once(&farm);
    every_instant_has_an_outcome(&farm).await;
    farm.check().await;
}

const BY_HAND: &str = "
    [job.tick]
    grace = '200ms'
    command = [WITNESS, '8000', 'daemon']
";

fn run(farm: &Farm, overlap: &str) -> i64 {
    let said = farm.ok(&["job", "run", "tick", "--overlap", overlap]);
    said.trim().parse().expect("a run's number")
}

#[tokio::test(flavor = "multi_thread")]
async fn by_hand_runs_stand_beside_each_other_unless_told_to_skip_or_to_queue() {
    let mut farm = Farm::new().agents(2).jobs(BY_HAND).start().await;
    let beside = [farm.submit("tick").await, run(&farm, "allow")];
    for run_id in beside {
        farm.lives(run_id, 1).await;
    }
    // What comes after them is short.
    farm.apply(&BY_HAND.replace("8000", "1500"));
    let skipped = farm.farmhand(&["job", "run", "tick", "--overlap", "skip", "--wait"]);
    assert_eq!(skipped.status.code(), Some(13), "{skipped:?}");
    let queued = [run(&farm, "queue"), run(&farm, "queue")];
    for run_id in queued {
        let waiting = farm.run(run_id).await;
        assert_eq!(
            (waiting.state.as_str(), waiting.reason.as_deref()),
            ("due", Some("overlap")),
            "{waiting:?}"
        );
    }
    // One of those that are waited for loses its holder: its second attempt is waited for too.
    let home = farm.run(beside[0]).await.running_at.expect("a node");
    farm.agent(&home).kill_with_wardens();
    for run_id in beside.into_iter().chain(queued) {
        assert_eq!(farm.over(run_id, LONG).await.state, "succeeded");
    }
    let spans = spans(&farm);
    let of = |run: i64| *spans.iter().find(|s| s.2 == run).expect("it lived");
    let first_two = of(beside[0]).1.max(of(beside[1]).1);
    assert!(of(queued[0]).0 > first_two, "it did not wait: {spans:?}");
    assert!(of(queued[1]).0 > of(queued[0]).1, "it did not wait: {spans:?}");
    let alone = run(&farm, "skip");
    assert_eq!(farm.over(alone, LONG).await.state, "succeeded");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_hand_replace_ends_what_lives_and_drops_what_waits_before_it_runs() {
    let ttl = Duration::from_secs(8);
    let mut farm = Farm::new().agents(2).ttl(ttl).jobs(BY_HAND).start().await;
    let first = farm.submit("tick").await;
    let home = farm.lives(first, 1).await.running_at.expect("a node");
    let waiting = run(&farm, "queue");
    // Stopped, it cannot end its run; killed, it is expired: then the run is cancelled and the new one goes.
    farm.agent(&home).stop();
    let newest = run(&farm, "replace");
    assert_eq!(farm.over(waiting, SOON).await.state, "cancelled");
    assert_eq!(farm.run(newest).await.reason.as_deref(), Some("overlap"));
    farm.agent(&home).kill_with_wardens();
    let replaced = farm.over(first, SOON).await;
    assert_eq!(
        (replaced.state.as_str(), replaced.attempt),
        ("cancelled", 1),
        "{replaced:?}"
    );
    assert_eq!(farm.over(newest, LONG).await.state, "succeeded");
    never_two_at_once(&farm);
    // With a key, a repetition is the same run and replaces nothing.
    let once = |key: &str| {
        let said = farm.ok(&[
            "job",
            "run",
            "tick",
            "--overlap",
            "replace",
            "--idempotency-key",
            key,
        ]);
        said.trim().parse::<i64>().expect("a run's number")
    };
    let run_id = once("k");
    assert_eq!(once("k"), run_id);
    assert_eq!(farm.over(run_id, LONG).await.state, "succeeded");
    farm.check().await;
}
