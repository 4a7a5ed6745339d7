//! The database server itself fails, stops, or has another idea of the time.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON, TTL, send};
use farmhand_tests::pg::{Options, PrivateServer};
use farmhand_tests::witness::boot_ns;

const JOBS: &str = "
    [job.long]
    command = [WITNESS, '4000', 'say=100']
    [job.short]
    command = [WITNESS, '100']
    [job.tick]
    schedule = '* * * * * *'
    catch_up.runs = 'all'
    overlap = 'allow'
    command = [WITNESS, '20']
";

async fn farm(agents: usize, ttl: Duration) -> Farm {
    let server = PrivateServer::start(Options::default()).await;
    Farm::new()
        .agents(agents)
        .ttl(ttl)
        .on(server)
        .jobs(JOBS)
        .start()
        .await
}

/// Every second from the first instant to the last has its record.
async fn no_instant_is_missing(farm: &Farm) {
    let gaps: i64 = farm
        .value(
            "SELECT count(*) FROM (SELECT first_due - lag(last_due) OVER (ORDER BY first_due) AS gap
             FROM farmhand.run WHERE job_id = 'tick') g WHERE gap <> interval '1 second'",
        )
        .await;
    assert_eq!(gaps, 0, "{:?}", farm.runs("tick").await);
}

async fn goes_on(farm: &Farm) {
    let before = farm.runs("tick").await.len();
    farm.eventually("the schedule goes on", SOON, async || {
        match farm.runs("tick").await.len() {
            now if now > before + 2 => Ok(()),
            now => Err(format!("{now} runs, {before} before")),
        }
    })
    .await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_or_a_crash_of_the_database_loses_nothing_and_ends_no_run() {
    for crash in [false, true] {
        let mut farm = farm(2, CALM).await;
        let long = farm.submit("long").await;
        farm.lives(long, 1).await;
        if crash {
            farm.database.server().kill();
        }
        farm.database.server().restart(None);
        farm.sql = farm.database.client().await;
        goes_on(&farm).await;
        let done = farm.succeeds(long).await;
        assert_eq!((done.attempt, done.takeovers), (1, 0), "{done:?}");
        if !crash {
            let expected: String = (1..=100).map(|n| format!("line {n}\n")).collect();
            assert_eq!(farm.output(long, 1).await, expected);
        }
        no_instant_is_missing(&farm).await;
        assert_eq!(farm.events("expired").await, 0);
        farm.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_longer_than_the_lease_every_run_and_instant_has_its_outcome() {
    let mut farm = farm(2, TTL).await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.database.server().stop();
    let stopped = boot_ns();
    farm.eventually("longer than the lease", SOON, async || {
        let gone = Duration::from_nanos(boot_ns() - stopped);
        (gone > TTL + TTL / 2)
            .then_some(())
            .ok_or_else(|| format!("{gone:?}"))
    })
    .await;
    let life = farm.witness.life(long, 1);
    assert!(
        Duration::from_nanos(life.last.saturating_sub(stopped)) < TTL,
        "it died with its lease"
    );
    for agent in &mut farm.agents {
        assert!(agent.exited().is_none(), "{} waits", agent.address);
    }
    farm.database.server().restart(None);
    farm.sql = farm.database.client().await;
    assert_eq!(farm.succeeds(long).await.attempt, 2);
    goes_on(&farm).await;
    // Each agent says how long it was without the database, though its session ended meanwhile.
    farm.eventually("both outages are on record", SOON, async || {
        let told = "SELECT address FROM farmhand.event WHERE kind = 'database_back' \
            AND (detail ->> 'away_ms')::bigint > $1 ORDER BY address";
        let lease = i64::try_from(TTL.as_millis()).unwrap();
        let rows = farm.sql.query(told, &[&lease]).await.unwrap();
        let told: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let all: Vec<String> = farm.agents.iter().map(|agent| agent.address.clone()).collect();
        (told == all).then_some(()).ok_or_else(|| format!("{told:?}"))
    })
    .await;
    no_instant_is_missing(&farm).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_database_ends_the_leases_and_a_thawed_one_starts_them_again() {
    let mut farm = farm(2, TTL).await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    let server = farm.database.server().pid();
    let everything: Vec<i32> = farmhand_tests::processes::tree(server)
        .iter()
        .map(|p| p.pid)
        .collect();
    for pid in &everything {
        send(*pid, libc::SIGSTOP);
    }
    let stopped = boot_ns();
    farm.eventually("longer than the lease", SOON, async || {
        let gone = Duration::from_nanos(boot_ns() - stopped);
        (gone > TTL + TTL / 2)
            .then_some(())
            .ok_or_else(|| format!("{gone:?}"))
    })
    .await;
    let life = farm.witness.life(long, 1);
    for pid in &everything {
        send(*pid, libc::SIGCONT);
    }
    assert!(
        Duration::from_nanos(life.last.saturating_sub(stopped)) < TTL,
        "it died with its lease"
    );
    assert_eq!(farm.succeeds(long).await.attempt, 2);
    goes_on(&farm).await;
    no_instant_is_missing(&farm).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_followed_through_a_restart_of_the_database_each_once() {
    let mut farm = farm(1, TTL).await;
    let told = farm.dir().join("events");
    let file = std::fs::File::create(&told).expect("a file");
    let mut following = farm
        .command(&["events", "-f", "--json", "--limit", "0", "--kind", "job_paused"])
        .stdout(file)
        .spawn()
        .expect("it starts");
    let reasons = || -> Vec<String> {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        let reason = |line: &str| {
            let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
            event["detail"]["reason"].as_str().unwrap_or_default().to_owned()
        };
        text.lines().map(reason).collect()
    };
    let mut wanted = Vec::new();
    for round in ["before", "after"] {
        if round == "after" {
            farm.database.server().restart(None);
            farm.sql = farm.database.client().await;
        }
        // Until one of them falls into the following: it may not have begun yet.
        farm.eventually("it is told", SOON, async || {
            let reason = format!("{round} {}", wanted.len());
            farm.ok(&["job", "pause", "long", "--reason", &reason]);
            farm.ok(&["job", "resume", "long"]);
            wanted.push(reason);
            match reasons().iter().any(|r| r.starts_with(round)) {
                true => Ok(()),
                false => Err(format!("{:?}", reasons())),
            }
        })
        .await;
    }
    send(following.id().cast_signed(), libc::SIGINT);
    assert_eq!(following.wait().expect("it ends").code(), Some(130));
    let told = reasons();
    let mut once = told.clone();
    once.dedup();
    assert_eq!(once, told, "an event was told twice");
    // From the first one that was told on, every one was, up to the last that was waited for.
    let from = wanted
        .iter()
        .position(|w| Some(w) == told.first())
        .expect("one of ours");
    assert!(wanted[from..].starts_with(&told), "{told:?} of {wanted:?}");
}

/// A function that the statement of an end calls is away for a while: an upgrade that goes wrong and is put right, say.
#[tokio::test(flavor = "multi_thread")]
async fn ends_wait_while_somebody_repairs_the_schema() {
    let jobs = "[job.brief]\ncommand = [WITNESS, 'until=@DIR@/go']\n";
    let farm = Farm::new().ttl(CALM).jobs(jobs).start().await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(farm.submit("brief").await);
    }
    for run in &runs {
        farm.lives(*run, 1).await;
    }
    let away = "ALTER FUNCTION farmhand.ended RENAME TO ended_away";
    farm.exec(away).await;
    std::fs::write(farm.dir().join("go"), "").expect("a file");
    let refusals = || farm.agents[0].log().matches("cannot be written down").count();
    // Each once, and 30 s later one of them, which is enough to see that nothing has changed.
    farm.eventually("ends are refused", 3 * SOON, async || match refusals() {
        n if n > runs.len() => Ok(()),
        n => Err(format!("{n} refusals")),
    })
    .await;
    let back = "ALTER FUNCTION farmhand.ended_away RENAME TO ended";
    farm.exec(back).await;
    for run in &runs {
        let done = farm.over(*run, 3 * SOON).await;
        assert_eq!(
            (done.state.as_str(), done.attempt, done.exit_code),
            ("succeeded", 1, Some(0)),
            "{done:?}"
        );
    }
    assert_eq!(refusals(), 4);
    farm.check().await;
}
