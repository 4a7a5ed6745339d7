//! What agents say to the database while nothing is due, by what it is for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use farmhand_core::lease::LeaseTiming;
use farmhand_tests::bench::statements;
use farmhand_tests::farm::{Agent, CALM, Farm, SOON};

/// Between two looks of a farm's agents at whose turn the gauges are: here, and unless somebody says otherwise.
const LOOKS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(15));
const SWEEPS: Duration = Duration::from_secs(60);
/// Somebody wants to hear of a job that is not due.
const JOBS: &str = "[notify.ops]\nwebhook = 'http://127.0.0.1:1/'\n
    [job.later]\nschedule = '0 0 1 1 *'\ncommand = ['true']\nnotify = 'ops'\n";
/// Statements a second of each agent.
const MOST: f64 = 0.5;

/// What is sent at rest, how often at the most, and how often where looks are as rare as usual.
fn purposes() -> BTreeMap<&'static str, (Duration, Duration)> {
    let timing = LeaseTiming::new(CALM).expect("a lease");
    let (renewals, polls) = (timing.renew_every(), timing.poll_every(true));
    [
        ("renew", (renewals, renewals)),
        ("poll", (polls, polls)),
        ("left_over", (SWEEPS, SWEEPS)),
        ("snapshot", LOOKS),
        ("snapshot_stand", LOOKS),
    ]
    .into()
}

/// What an agent sends while this test waits for some looks.
async fn sent(agent: &Agent) -> (BTreeMap<String, f64>, Duration) {
    let (before, began) = (statements(agent).await, Instant::now());
    tokio::time::sleep(LOOKS.0 * 2).await;
    let mut sent = statements(agent).await;
    for (op, count) in &mut sent {
        *count -= before.get(op).copied().unwrap_or(0.0);
    }
    sent.retain(|_, count| *count > 0.0);
    (sent, began.elapsed())
}

/// Of one purpose one statement each time, and all purposes together are rare.
fn rare(sent: &BTreeMap<String, f64>, took: Duration) -> Result<(), String> {
    let purposes = purposes();
    let mut usually = 1.0 / SWEEPS.as_secs_f64();
    for (op, count) in sent {
        let (here, usual) = purposes.get(op.as_str()).ok_or(format!("{op} in {sent:?}"))?;
        // One is under way when the count begins, and the timetable goes by half seconds.
        let most = took.as_secs_f64() / here.as_secs_f64() + 2.0;
        if *count > most {
            return Err(format!("{op} {count} times within {took:?}"));
        }
        if *usual != SWEEPS {
            usually += 1.0 / usual.as_secs_f64();
        }
    }
    if usually > MOST {
        return Err(format!("{usually} statements a second: {sent:?}"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_at_rest_sends_a_statement_every_two_seconds_at_the_most_whether_it_exposes_the_farm_or_not()
{
    let farm = Farm::new().agents(2).ttl(CALM).jobs(JOBS).start().await;
    // What agents do after a start comes first.
    farm.eventually("only what is sent at rest", SOON * 6, async || {
        let (one, other) = tokio::join!(sent(&farm.agents[0]), sent(&farm.agents[1]));
        for (sent, took) in [&one, &other] {
            rare(sent, *took)?;
        }
        let exposes = |sent: &BTreeMap<String, f64>| sent.contains_key("snapshot");
        let asks = |sent: &BTreeMap<String, f64>| sent.contains_key("snapshot_stand");
        let (one, other) = (&one.0, &other.0);
        let each_its_part = exposes(one) && asks(other) || exposes(other) && asks(one);
        each_its_part.then_some(()).ok_or(format!("{one:?} {other:?}"))
    })
    .await;
}
