//! One replacement of the database after the other, under a job of every second. `FARMHAND_REPLACEMENTS` says how many.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use farmhand_tests::farm::{Farm, TTL};
use farmhand_tests::pg::{Options, PrivateServer};
use farmhand_tests::witness::{Seen, What};

/// Something of it lives at every moment, and no instant may be lost.
const JOBS: &str = "
    [job.tick]
    schedule = '* * * * * *'
    command = [WITNESS, '1500', 'beat=50']
    overlap = 'allow'
    catch_up.runs = 'all'
";

/// What a replacement and a lease take on a busy machine.
const WAITED: Duration = Duration::from_secs(30 + TTL.as_secs());

const RENEWALS: &str = "SELECT min(renewals) FROM farmhand.node WHERE open";

#[tokio::test(flavor = "multi_thread")]
async fn no_fence_falls_or_repeats_and_no_run_lives_twice_however_often_the_database_is_replaced() {
    let wanted = std::env::var("FARMHAND_REPLACEMENTS").ok();
    let wanted = wanted.map_or(4, |n| n.parse().expect("FARMHAND_REPLACEMENTS is a number"));
    let server = PrivateServer::start(Options {
        settings: vec![("wal_level".to_owned(), "logical".to_owned())],
        ..Options::default()
    })
    .await;
    let mut farm = Farm::new()
        .agents(2)
        .slots(20)
        .ttl(TTL)
        .on(server)
        .jobs(JOBS)
        .start()
        .await;
    let mut longest = Duration::ZERO;
    for number in 0..wanted {
        runs_live(&farm).await;
        let before: i64 = farm.value("SELECT max(epoch) FROM farmhand.epoch").await;
        let began = replace(&mut farm, number).await;
        farm.sql = farm.database.client().await;
        farm.eventually("claims are open", WAITED, async || {
            let epoch = "SELECT coalesce((SELECT d.epoch FROM farmhand.database d WHERE d.open), 0)";
            match farm.value::<i64>(epoch).await {
                epoch if epoch > before => Ok(()),
                epoch => Err(format!("epoch {epoch} after {before}")),
            }
        })
        .await;
        longest = longest.max(began.elapsed());
        if number % 10 == 9 {
            judge(&farm.witness.lines());
        }
    }
    runs_live(&farm).await;
    let lines = farm.witness.lines();
    judge(&lines);
    let epochs: BTreeSet<i64> = lines.iter().map(|l| l.fence >> 40).collect();
    assert_eq!(epochs.len(), wanted + 1, "commands ran in each epoch: {epochs:?}");
    println!(
        "{wanted} replacements, {} attempts, the longest took {longest:.1?}",
        lines.iter().filter(|l| l.what == What::Start).count()
    );
}

/// A restored copy, a dump that is loaded, an upgrade and a logical cutover in turn. Answers when it began.
async fn replace(farm: &mut Farm, number: usize) -> Instant {
    let mut began = Instant::now();
    match number % 4 {
        0 => {
            let copy = farm.database.server().copy();
            // The copy lacks these. One that lacks less than three renewals is beyond the promise (docs/internals/limits.md).
            farm.sql = farm.database.client().await;
            let mut first = None;
            farm.eventually("more renewals", WAITED, async || {
                // None while no session is open.
                let now: Option<i64> = farm.value(RENEWALS).await;
                first = first.or(now);
                match (first, now) {
                    (Some(first), Some(now)) if now > first + 5 => Ok(()),
                    _ => Err(format!("{now:?} after {first:?}")),
                }
            })
            .await;
            runs_live(farm).await;
            began = Instant::now();
            farm.database.server().go_back_to(&copy);
        }
        1 => farm.database.server().dump_and_load(),
        2 => farm.database.server().upgrade(),
        _ => farm.database.server().cut_over().await,
    }
    began
}

/// What is claimed from now on begins, too, and what was due meanwhile has begun.
async fn runs_live(farm: &Farm) {
    let fence = farm.witness.lines().iter().map(|l| l.fence).max().unwrap_or(0);
    farm.eventually("new attempts began", WAITED, async || {
        let lines = farm.witness.lines();
        let new = lines.iter().filter(|l| l.what == What::Start && l.fence > fence);
        let now = jiff::Timestamp::now().as_second();
        match new.filter(|l| due(l) > now - 3).count() {
            0..2 => Err(format!("none above {fence} of the last seconds")),
            _ => Ok(()),
        }
    })
    .await;
}

/// Seconds since 1970.
fn due(line: &Seen) -> i64 {
    line.due
        .parse::<jiff::Timestamp>()
        .expect("an instant")
        .as_second()
}

/// In the order in which the lines were written.
fn judge(lines: &[Seen]) {
    let (mut given, mut epoch) = (BTreeMap::new(), 0);
    let mut newest: BTreeMap<i64, i64> = BTreeMap::new();
    for line in lines {
        assert_ne!(line.what, What::Clash, "{line:?}");
        if line.what == What::Start {
            let before = given.insert(line.fence, line);
            assert!(
                before.is_none(),
                "a fence was given twice: {line:?} after {before:?}"
            );
            assert!(
                line.fence >> 40 >= epoch,
                "a fence fell: {line:?} in epoch {epoch}"
            );
            epoch = line.fence >> 40;
        }
        let newest = newest.entry(line.run).or_insert(line.fence);
        assert!(
            line.fence >= *newest,
            "a run lives twice: {line:?} after fence {newest}"
        );
        *newest = line.fence;
    }
    // A second may have two runs after a copy, and never none; the newest may be on their way.
    let due: BTreeSet<i64> = lines.iter().map(due).collect();
    let due: Vec<i64> = due.into_iter().collect();
    let settled = due.last().map_or(0, |newest| newest - 10);
    let gap = |pair: &&[i64]| pair[1] != pair[0] + 1 && pair[1] <= settled;
    let lost: Vec<_> = due.windows(2).filter(gap).collect();
    assert!(lost.is_empty(), "instants without a run: {lost:?}");
}
