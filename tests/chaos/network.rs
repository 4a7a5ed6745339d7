//! An agent cut off from PostgreSQL: the same promises, by its own clock.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use farmhand_tests::chaos::place::{HUB, Place, enter_hub, join};
use farmhand_tests::chaos::plan::Way;
use farmhand_tests::farm::{Farm, SOON, TAKEOVER};
use farmhand_tests::proxy::{Flow, Proxy};
use farmhand_tests::witness::boot_ns;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

const JOBS: &str = "
    [job.long]
    command = [WITNESS, '6000', 'ignore-term']
    [job.short]
    command = [WITNESS, '300']
";

/// Breaks the network of the node that runs a long run; checks the takeover; heals; checks that all is well.
async fn a_node_loses_its_runs_in_time(fault: impl FnOnce(&Proxy)) {
    let mut farm = Farm::new().agents(2).proxied().jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    let home = farm.lives(long, 1).await.running_at.expect("a node");
    let broken = boot_ns();
    fault(farm.agent(&home).proxy());
    farm.lives(long, 2).await;
    let (before, after) = (farm.witness.life(long, 1), farm.witness.life(long, 2));
    let delay = Duration::from_nanos(after.first - broken);
    eprintln!(
        "takeover after {delay:?}; the old processes ended {:?} before",
        before.gap_to(&after)
    );
    assert!(before.last < after.first);
    assert!(delay <= TAKEOVER, "{delay:?}");
    assert_ne!(after.node, home);
    farm.agent(&home).proxy().heal();
    let sql = format!("SELECT count(*) FROM farmhand.node WHERE address = '{home}' AND open AND session > 1");
    farm.becomes(SOON, &sql, 1_i64).await;
    let done = farm.succeeds(long).await;
    assert_eq!((done.attempt, done.takeovers), (2, 1), "{done:?}");
    // The node that came back works: the other is asked to stand aside.
    let other = farm.other_than(&home).address.clone();
    farm.ok(&["node", "cordon", &other]);
    let short = farm.submit("short").await;
    assert_eq!(farm.succeeds(short).await.running_at, Some(home));
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_packets_to_the_server_are_lost_loses_its_runs_in_time() {
    a_node_loses_its_runs_in_time(|network| network.to_server(Flow::Hold)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_packets_from_the_server_are_lost_loses_its_runs_in_time() {
    a_node_loses_its_runs_in_time(|network| network.to_client(Flow::Hold)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_connections_are_refused_loses_its_runs_in_time() {
    a_node_loses_its_runs_in_time(Proxy::cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_whose_reply_is_lost_is_recorded_once() {
    let farm = Farm::new().proxied().jobs(JOBS).start().await;
    farm.apply("[job.ends]\ncommand = [WITNESS, '3000']\n");
    let run_id = farm.submit("ends").await;
    farm.lives(run_id, 1).await;
    farm.agents[0]
        .proxy()
        .lose_reply_after("FROM given g WHERE g.state IS NOT NULL");
    let done = farm.succeeds(run_id).await;
    assert_eq!(done.attempt, 1, "{done:?}");
    farm.eventually("a lost reply", SOON, async || {
        match farm.agents[0].proxy().replies_lost() {
            1 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    // The agent has understood that too: nothing is held, nothing is refused, the next one runs.
    let next = farm.submit("short").await;
    farm.succeeds(next).await;
    assert_eq!(farm.events("fenced").await, 0);
    farm.counts(&farm.agents[0], "farmhand_runs_in_progress", &[], 0.0)
        .await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_reply_is_lost_is_given_back_and_run() {
    let farm = Farm::new().proxied().jobs(JOBS).start().await;
    // Not that of a claim that was already on its way and wins nothing.
    farm.agents[0]
        .proxy()
        .lose_reply_with("SET state = 'running'", "short");
    let run_id = farm.submit("short").await;
    let done = farm.succeeds(run_id).await;
    assert_eq!(farm.agents[0].proxy().replies_lost(), 1);
    assert_eq!((done.attempt, done.takeovers), (2, 0), "{done:?}");
    assert_eq!(
        farm.witness.lives(run_id).len(),
        1,
        "the first attempt never started"
    );
    assert_eq!(farm.attempts(run_id).await[0].outcome, "never_started");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_of_a_claim_beside_one_of_a_locked_job_ends_nothing_else() {
    let farm = Farm::new().proxied().jobs(JOBS).start().await;
    farm.apply("[job.locked]\nlocks = ['l']\ncommand = [WITNESS, '300']\n");
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    // The agent knows that there are locks; both are won by one claim.
    let first = farm.submit("locked").await;
    farm.succeeds(first).await;
    farm.ok(&["node", "cordon", "n1"]);
    let (short, locked) = (farm.submit("short").await, farm.submit("locked").await);
    farm.agents[0]
        .proxy()
        .lose_reply_with("SET state = 'running'", "short");
    farm.ok(&["node", "resume", "n1"]);
    let (short, locked, long) = (
        farm.succeeds(short).await,
        farm.succeeds(locked).await,
        farm.succeeds(long).await,
    );
    assert_eq!(farm.agents[0].proxy().replies_lost(), 1);
    assert_eq!((short.attempt, short.takeovers), (2, 0), "{short:?}");
    assert_eq!((locked.attempt, long.attempt), (1, 1), "{locked:?} {long:?}");
    assert_eq!(farm.events("session_shared").await, 0);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_firing_whose_reply_is_lost_fires_each_instant_once() {
    let farm = Farm::new().proxied().start().await;
    farm.apply("[job.tick]\nschedule = '* * * * * *'\ncatch_up.runs = 'all'\ncommand = [WITNESS, '50']\n");
    farm.first_run("tick").await;
    for _ in 0..2 {
        let before = farm.agents[0].proxy().replies_lost();
        farm.agents[0].proxy().lose_reply_after("decided_until");
        farm.eventually("a lost reply", SOON, async || {
            match farm.agents[0].proxy().replies_lost() {
                now if now > before => Ok(()),
                _ => Err("none".to_owned()),
            }
        })
        .await;
    }
    let runs = farm.runs("tick").await.len();
    farm.eventually("it goes on", SOON, async || match farm.runs("tick").await.len() {
        now if now >= runs + 2 => Ok(()),
        now => Err(format!("{now} runs")),
    })
    .await;
    let gaps: i64 = farm
        .value(
            "SELECT count(*) FROM (SELECT first_due - lag(last_due) OVER (ORDER BY first_due) AS gap
             FROM farmhand.run WHERE job_id = 'tick') g WHERE gap <> interval '1 second'",
        )
        .await;
    assert_eq!(gaps, 0, "{:?}", farm.runs("tick").await);
    farm.check().await;
}

/// By the timers of the server's sockets: Linux asks after two hours where nobody says otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_asks_within_seconds_whether_an_agents_machine_is_still_there() {
    let farm = Farm::new().proxied().jobs(JOBS).start().await;
    let port = farm.database.port();
    farm.eventually("short timers on every session", SOON, async || {
        let sessions = "SELECT array_agg(pid) FROM pg_stat_activity
            WHERE application_name = 'farmhand n1' AND datname = current_database()";
        let sessions: Vec<i32> = farm.value(sessions).await;
        let shown = Command::new("ss")
            .args(["-Htnop", "sport", "=", &format!(":{port}")])
            .output()
            .expect("ss, of the package iproute2");
        let shown = String::from_utf8(shown.stdout).expect("text");
        let asks = |pid: &i32| {
            let of_it = |line: &&str| line.contains(&format!("pid={pid},"));
            let line = shown.lines().find(of_it).unwrap_or_default();
            line.contains("timer:(keepalive,") && !line.contains("min,")
        };
        sessions
            .iter()
            .all(asks)
            .then_some(())
            .ok_or_else(|| format!("{sessions:?}\n{shown}"))
    })
    .await;
    farm.check().await;
}

/// The suite's proxy answers the server's question for it: it must ask its client itself, as a load balancer must.
#[test]
fn the_proxy_ends_the_connection_of_a_client_that_vanished() {
    // A thread of its own moves to another network.
    let whole = std::thread::spawn(|| {
        enter_hub();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(a_client_vanishes());
    });
    whole.join().expect("the test itself");
}

async fn a_client_vanishes() {
    let listener = TcpListener::bind((HUB, 0)).await.expect("a port for the server");
    let proxy = Proxy::start_at(HUB, listener.local_addr().expect("an address")).await;
    let dir = tempfile::tempdir().expect("a directory");
    let place = Place::new(1, dir.path(), 1);
    let connects = format!("exec 3<>/dev/tcp/{HUB}/{} && exec sleep infinity", proxy.port());
    let mut client = Command::new("bash");
    client.args(["-c", &connects]);
    let namespaces = place.descriptors();
    // SAFETY: system calls alone between fork and exec.
    unsafe { client.pre_exec(move || join(namespaces)) };
    let mut client = client.spawn().expect("bash starts");
    let (mut connection, _) = listener.accept().await.expect("a connection");
    place.drop_packets(Way::Both);
    client.kill().expect("a child of ours");
    client.wait().expect("a child of ours");
    let ended = tokio::time::timeout(SOON * 3, connection.read(&mut [0])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
}
