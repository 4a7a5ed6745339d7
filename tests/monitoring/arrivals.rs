//! Faults on a real farm, and the alerts that arrive; what the dashboards then show.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use farmhand_tests::alerts::{Scale, source};
use farmhand_tests::farm::{Farm, SOON, send, stop};
use farmhand_tests::freezer::Frozen;
use farmhand_tests::no_forks::NoForks;
use farmhand_tests::pg::{Options, PrivateServer};
use farmhand_tests::watch::{Arrival, Watch};

use crate::dashboards::queries;

/// A minute of the rules is two seconds here.
const SCALE: Scale = Scale(30);
/// From a fault to its alert, on a machine busy with other things.
const ARRIVES: Duration = Duration::from_secs(60);
/// Taken over at once: more than the rule calls a storm.
const STORM: usize = 14;

const JOBS: &str = "
    [job.fine]
    where = { storm = 'yes' }
    schedule = '* * * * * *'
    command = ['true']
    [job.long]
    where = { storm = 'yes' }
    command = [WITNESS, '600000', 'beat=1000']
    [job.short]
    where = { storm = 'yes' }
    command = [WITNESS, '1500']
    [job.weary]
    where = { storm = 'yes' }
    command = ['sleep', '{seconds}']
    params = { seconds = { type = 'integer', default = 0 } }
    [job.stuck]
    where = { stuck = 'yes' }
    command = [WITNESS, '600000', 'beat=1000']
    [job.homeless]
    where = { nowhere = 'yes' }
    command = ['true']
    [job.poison]
    where = { node = 'n1' }
    command = [WITNESS, '600000', 'beat=1000']
    [notify.nobody]
    webhook = 'http://127.0.0.1:1/'
    [job.flaky]
    where = { storm = 'yes' }
    notify = ['nobody']
    retry = { max = 1, backoff = 'constant', base = '100ms' }
    command = ['false']
    [job.timed]
    where = { storm = 'yes' }
    timeout = '1s'
    command = ['sleep', '600']
    [job.refused]
    where = { storm = 'yes' }
    user = 'nobody'
    command = ['true']
    [job.loud]
    where = { storm = 'yes' }
    output = { keep = '1KiB', local = '4KiB' }
    command = 'head -c 300000 /dev/zero | tr \"\\\\0\" x'
";

const FAILING: &str = "[job.fails]\nwhere = { storm = 'yes' }\nschedule = '* * * * * *'\ncommand = ['false']\nowner = 'payments'\n\
    runbook = 'https://wiki.example.org/fails'\n";
const LATE: &str = "[job.late]\nwhere = { storm = 'yes' }\nschedule = '*/2 * * * * *'\ncommand = [WITNESS, '600000', 'beat=1000']\n";

/// n1 and n2 take over from n3; n4 has a long lease.
async fn farm() -> Farm {
    let server = PrivateServer::start(Options::default()).await;
    let mut farm = Farm::new()
        .agents(4)
        .slots(20)
        .on(server)
        .jobs(JOBS)
        // Nobody listens there.
        .env("FARMHAND_PING_URL", "http://127.0.0.1:1/")
        .env("FARMHAND_PING_EVERY", "1s")
        .prepare()
        .await;
    for agent in &mut farm.agents {
        let label = match agent.address.as_str() {
            "n4" => "stuck=yes",
            _ => "storm=yes",
        };
        agent.arguments.extend(["--label".to_owned(), label.to_owned()]);
    }
    let long_lease = farm.agent("n4");
    let ttl = long_lease
        .arguments
        .iter()
        .position(|a| a == "--lease-ttl")
        .expect("a TTL")
        + 1;
    long_lease.arguments[ttl] = "40s".to_owned();
    // Beyond what has series of its own.
    let filler: String = (0..1_010)
        .map(|n| format!("[job.zz-{n}]\ncommand = ['true']\n"))
        .collect();
    farm.apply(&filler);
    farm
}

/// When each alert was provoked, and how long it took to arrive.
struct Provoked<'a> {
    watch: &'a Watch,
    delays: BTreeMap<&'static str, Duration>,
}

impl Provoked<'_> {
    async fn arrives(&mut self, alert: &'static str, since: Instant, farm: &Farm) -> Arrival {
        self.arrives_of(alert, None, since, farm).await
    }

    /// Of this job, if one is named.
    async fn arrives_of(
        &mut self,
        alert: &'static str,
        job: Option<&str>,
        since: Instant,
        farm: &Farm,
    ) -> Arrival {
        let is_of = |a: &&Arrival| job.is_none_or(|job| a.labels["job_name"] == job);
        let arrival = farm
            .eventually(alert, ARRIVES, async || {
                let all = self.watch.webhook.arrivals();
                let found = all
                    .iter()
                    .filter(|a| a.alert == alert && a.status == "firing" && a.at >= since)
                    .find(is_of);
                found
                    .cloned()
                    .ok_or_else(|| format!("arrived: {:?}", all.iter().map(|a| &a.alert).collect::<Vec<_>>()))
            })
            .await;
        self.delays.insert(alert, arrival.at - since);
        let told = arrival.annotations.to_string();
        assert!(!told.contains("no value") && !told.contains("error"), "{told}");
        let page = arrival.annotations["runbook_url"].as_str().expect("a runbook");
        assert!(page.contains("/docs/runbooks/"), "{page}");
        arrival
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn provoked_faults_arrive_as_alerts_and_every_panel_and_metric_shows_something() {
    let mut farm = farm().await;
    // Alone, it gets them all.
    farm.agent("n3").start().await;
    for _ in 0..STORM {
        farm.submit("long").await;
    }
    let running = "SELECT count(*) FROM farmhand.run_live WHERE job_id = 'long' AND started_at IS NOT NULL";
    farm.becomes(SOON, running, STORM as i64).await;
    for name in ["n1", "n2", "n4"] {
        farm.agent(name).start().await;
    }
    let watch = Watch::start(&farm.agents, SCALE).await;
    farm.eventually("every agent is scraped", SOON, async || {
        // Twice, so that what increases is seen to.
        let seen = watch
            .query("count(count_over_time(farmhand_build_info[1m]) >= 2)")
            .await;
        match seen.first().map(|s| s["value"][1] == "4") {
            Some(true) => Ok(()),
            _ => Err(format!("{seen:?}")),
        }
    })
    .await;
    let mut provoked = Provoked {
        watch: &watch,
        delays: BTreeMap::new(),
    };
    let held = farm.database.client().await;
    let open = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM farmhand.node";
    held.exec(open).await;

    farm.apply(FAILING);
    let failing = Instant::now();
    farm.apply(LATE);
    let late = Instant::now();
    for warden in farm.agent("n4").wardens() {
        stop(warden.pid);
    }
    farm.submit("stuck").await;
    let stuck = Instant::now();
    // No node may run it: it waits.
    farm.submit("homeless").await;
    farm.agent("n3").kill_with_wardens();
    let killed = Instant::now();
    let mut others = Vec::new();
    for job in ["flaky", "timed", "loud", "refused"] {
        others.push(farm.submit(job).await);
    }
    for _ in 0..5 {
        others.push(farm.submit("weary").await);
    }
    let lost = provoked.arrives("FarmhandNodeLost", killed, &farm).await;
    assert_eq!(lost.labels["node"], "n3");
    provoked.arrives("FarmhandTakeoverStorm", killed, &farm).await;
    let held_up = provoked.arrives("FarmhandLeaseStuck", stuck, &farm).await;
    assert_eq!(
        (
            &held_up.labels["job_name"],
            &held_up.labels["node"],
            &held_up.labels["state"]
        ),
        (&"stuck".into(), &"n4".into(), &"stalled".into())
    );
    let fails = provoked
        .arrives_of("FarmhandJobFailing", Some("fails"), failing, &farm)
        .await;
    assert_eq!(
        (&fails.labels["owner"], &fails.labels["runbook"]),
        (&"payments".into(), &"https://wiki.example.org/fails".into())
    );
    let told = fails.annotations["description"].as_str().expect("a description");
    let of_job = " Its owner: payments. Its runbook: https://wiki.example.org/fails";
    assert!(told.ends_with(of_job), "{told}");
    let missed = provoked
        .arrives_of("FarmhandJobMissedDeadline", Some("late"), late, &farm)
        .await;
    let told = missed.annotations["description"].as_str().expect("a description");
    assert!(
        missed.labels["owner"].is_null() && !told.contains("Its owner"),
        "{told}"
    );
    for run in others {
        farm.over(run, SOON).await;
    }
    let poisoned = Instant::now();
    poison(&mut farm).await;
    provoked
        .arrives_of("FarmhandPoisonJob", Some("poison"), poisoned, &farm)
        .await;
    farm.ok(&["job", "run", "weary", "-p", "seconds=600"]);
    let weary = Instant::now();
    let slow = provoked.arrives("FarmhandRunSlow", weary, &farm).await;
    assert_eq!(slow.labels["job_name"], "weary");
    farm.event("run_slow").await;
    let run: i64 = farm
        .value("SELECT run_id FROM farmhand.run_live WHERE job_id = 'weary'")
        .await;
    // SIGKILL stays pending.
    let frozen = Frozen::new(farm.processes_of_run(run)[0].pid);
    let cancelled = Instant::now();
    farm.ok(&["run", "cancel", &run.to_string()]);
    let forks = NoForks::new(&[farm.agent("n2").wardens()[0].pid]);
    let full = Instant::now();
    provoked.arrives("FarmhandNodeCannotStart", full, &farm).await;
    drop(forks);
    provoked
        .arrives("FarmhandNotificationsDelayed", killed, &farm)
        .await;
    provoked
        .arrives("FarmhandUnkillableProcess", cancelled, &farm)
        .await;
    drop(frozen);
    farm.over(run, SOON).await;
    fence(&mut farm).await;
    panels(&farm, &watch).await;

    farm.database.server().stop();
    let cut = Instant::now();
    provoked.arrives("FarmhandDatabaseOutOfReach", cut, &farm).await;
    farm.eventually("the rest is silenced", ARRIVES, async || {
        match watch.states("FarmhandSnapshotAbsent").await.as_slice() {
            [one] if one == "suppressed" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Turned away: no token.
    farm.agents[0].get("/api/v1/me").await;
    // The outage was the last of them.
    farm.eventually("every metric moves", Duration::from_secs(30), async || {
        still(&watch).await
    })
    .await;
    let told = watch.webhook.arrivals();
    assert!(
        !told
            .iter()
            .any(|a| a.alert == "FarmhandSnapshotAbsent" && a.at > cut)
    );
    eprintln!(
        "from the fault to the webhook, every duration of the rules divided by {}:",
        SCALE.0
    );
    for (alert, delay) in &provoked.delays {
        let rule = source()
            .alerts
            .into_iter()
            .find(|a| a.name == *alert)
            .expect("a rule");
        eprintln!(
            "  {alert}: {:.1} s (for: {})",
            delay.as_secs_f64(),
            SCALE.hold(&rule.hold)
        );
    }
}

/// A run loses its warden as often as a job may not within an hour.
async fn poison(farm: &mut Farm) {
    let run = farm.submit("poison").await;
    for attempt in 1..=3 {
        farm.lives(run, attempt).await;
        for warden in farm.agent("n1").wardens() {
            send(warden.pid, libc::SIGKILL);
        }
    }
}

/// A node that was stopped finds its finish refused. Once in a while it learns first that its session is over,
/// and then has nothing to write.
async fn fence(farm: &mut Farm) {
    for _ in 0..8 {
        let run = farm.submit("short").await;
        let home = farm.lives(run, 1).await.running_at.expect("a node");
        farm.agent(&home).stop();
        farm.lives(run, 2).await;
        farm.agent(&home).resume();
        farm.succeeds(run).await;
        for _ in 0..30 {
            if farm.events("fenced").await > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    farm.event("fenced").await;
}

/// The metrics of the code that have been zero, and the same, since the start.
async fn still(watch: &Watch) -> Result<(), String> {
    let documented =
        std::fs::read_to_string(farmhand_tests::alerts::root().join("docs/reference/metrics.md"));
    let text = documented.expect("docs/reference/metrics.md");
    let names = text
        .lines()
        .filter_map(|l| l.strip_prefix("| `")?.split('`').next());
    let mut still = Vec::new();
    for name in names.filter(|n| n.starts_with("farmhand_")) {
        let all = format!("{{__name__=~\"{name}(_count)?\"}}[10m]");
        let moved = format!("max(max_over_time({all})) > 0 or max(changes({all})) > 0");
        if watch.query(&moved).await.is_empty() {
            still.push(name);
        }
    }
    match still.as_slice() {
        [] => Ok(()),
        some => Err(format!("{some:?}")),
    }
}

/// Runs every query of every panel, as Grafana would.
async fn panels(farm: &Farm, watch: &Watch) {
    let instance = format!("127.0.0.1:{}", farm.agents[1].port);
    let of_job = |name| {
        queries(&[
            ("farm", "farmhand"),
            ("job_name", name),
            ("instance", instance.as_str()),
            ("__rate_interval", "10s"),
        ])
    };
    let mut empty = Vec::new();
    let all = of_job("fails");
    let count = all.len();
    // One that never succeeds has no time since its last success.
    for (query, good) in all.iter().zip(of_job("weary")) {
        if watch.query_range(&query.expr).await.is_empty() && watch.query_range(&good.expr).await.is_empty() {
            empty.push(format!("{}: {}", query.panel, query.expr));
        }
    }
    eprintln!("{count} queries of panels, {} without data", empty.len());
    assert!(empty.is_empty(), "no data:\n{}", empty.join("\n"));
}
