//! Where runs may be: cordons through restarts, and what SIGHUP changes about slots and labels.

use std::path::PathBuf;
use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON};

/// n1, n2 and so on, each with a label `name` of its own and the role given.
async fn labelled(ttl: Duration, roles: &[&str], jobs: &str) -> Farm {
    let mut farm = Farm::new()
        .agents(roles.len())
        .ttl(ttl)
        .jobs(jobs)
        .prepare()
        .await;
    for (agent, role) in farm.agents.iter_mut().zip(roles) {
        let name = format!("name={}", agent.address);
        agent.arguments.extend(["--label".to_owned(), name]);
        agent
            .arguments
            .extend(["--label".to_owned(), format!("role={role}")]);
    }
    farm.start_agents().await;
    farm
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_holds_through_a_restart_of_the_agent_and_ends_with_resume() {
    let jobs = "[job.here]\nwhere = { name = 'n1' }\ncommand = [WITNESS, '50']\n
        [job.any]\ncommand = [WITNESS, '50']\n
        [job.long]\nwhere = { name = 'n1' }\ncommand = [WITNESS, '3000']\n";
    // Longer than an agent takes to start again.
    let mut farm = labelled(Duration::from_secs(8), &["a", "a"], jobs).await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    let free = "farmhand_slots_free";
    farm.counts(&farm.agents[0], free, &[], 3.0).await;
    assert!(
        farm.ok(&["node", "cordon", "n1"])
            .starts_with("n1 claims nothing more")
    );
    farm.counts(&farm.agents[0], free, &[], 0.0).await;
    let here = farm.submit("here").await;
    for round in 0..2 {
        for _ in 0..3 {
            let any = farm.submit("any").await;
            assert_eq!(
                farm.succeeds(any).await.running_at.as_deref(),
                Some("n2"),
                "round {round}"
            );
        }
        if round == 0 {
            farm.agent("n1").kill();
            farm.agent("n1").start().await;
        }
    }
    // What ran when the cordon came goes on.
    let done = farm.succeeds(long).await;
    assert_eq!((done.attempt, done.running_at.as_deref()), (1, Some("n1")));
    farm.agent("n1").kill_with_wardens();
    farm.agent("n1").start().await;
    assert_eq!(farm.run(here).await.state, "due");
    assert!(farm.ok(&["node", "ls"]).contains("cordoned"));
    assert_eq!(farm.ok(&["node", "resume", "n1"]), "n1 claims again\n");
    assert_eq!(farm.succeeds(here).await.running_at.as_deref(), Some("n1"));
    farm.counts(&farm.agents[0], free, &[], 4.0).await;
    farm.check().await;
}

/// The one agent reads this file, which alone says how many slots there are.
fn configured(farm: &mut Farm, text: &str) -> PathBuf {
    let config = farm.dir().join("agent.toml");
    std::fs::write(&config, text).expect("a configuration");
    let arguments = &mut farm.agents[0].arguments;
    arguments.retain(|a| a != "--slots" && a != "4");
    arguments.extend(["--config".to_owned(), config.display().to_string()]);
    config
}

/// The node's row has so many slots.
async fn slots(farm: &Farm, wanted: i32) {
    farm.becomes(SOON, "SELECT coalesce(max(slots), 0) FROM farmhand.node", wanted)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_changes_slots_and_labels_of_a_running_agent_and_costs_its_jobs_nothing() {
    let jobs = "[job.gpu]\nwhere = { gpu = 'yes' }\ncommand = [WITNESS, '50']\n
        [job.long]\ncommand = [WITNESS, '5000']\n";
    let mut farm = Farm::new().agents(1).jobs(jobs).prepare().await;
    let config = configured(&mut farm, "slots = 1\nlabels = { zone = 'a' }\n");
    farm.start_agents().await;
    let (long, waiting, gpu) = (
        farm.submit("long").await,
        farm.submit("long").await,
        farm.submit("gpu").await,
    );
    farm.lives(long, 1).await;
    assert_eq!(farm.run(waiting).await.state, "due");
    std::fs::write(&config, "slots = 3\nlabels = { zone = 'a', gpu = 'yes' }\n").expect("a configuration");
    farm.agents[0].signal(libc::SIGHUP);
    farm.lives(waiting, 1).await;
    assert_eq!(farm.succeeds(gpu).await.attempt, 1);
    assert_eq!(
        farm.run(long).await.state,
        "running",
        "it was free while the first one ran"
    );
    assert_eq!(farm.agents[0].metric("farmhand_slots", &[]).await, 3.0);
    assert_eq!(farm.value::<i32>("SELECT slots FROM farmhand.node").await, 3);
    // A mistake changes nothing, and is told.
    std::fs::write(&config, "slots = 'many'\n").expect("a configuration");
    farm.agents[0].signal(libc::SIGHUP);
    farm.eventually("the mistake is told", SOON, async || {
        let log = farm.agents[0].log_tail(20);
        if log.contains("many") { Ok(()) } else { Err(log) }
    })
    .await;
    assert_eq!(farm.value::<i32>("SELECT slots FROM farmhand.node").await, 3);
    for run_id in [long, waiting] {
        let done = farm.over(run_id, Duration::from_secs(20)).await;
        assert_eq!((done.state.as_str(), done.attempt), ("succeeded", 1), "{done:?}");
    }
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_fewer_slots_than_runs_claims_nothing_until_fewer_run() {
    let jobs = "[job.long]\ncommand = 'until [ -e @DIR@/end.$FARMHAND_RUN ]; do sleep 0.1; done'\n";
    let mut farm = Farm::new().agents(1).jobs(jobs).prepare().await;
    let config = configured(&mut farm, "slots = 3\n");
    farm.start_agents().await;
    let mut running = Vec::new();
    for _ in 0..3 {
        let run = farm.submit("long").await;
        farm.eventually("it runs", SOON, async || match farm.run(run).await {
            found if found.state == "running" => Ok(()),
            found => Err(format!("{found:?}")),
        })
        .await;
        running.push(run);
    }
    std::fs::write(&config, "slots = 1\n").expect("a configuration");
    farm.agents[0].signal(libc::SIGHUP);
    slots(&farm, 1).await;
    let waiting = farm.submit("long").await;
    // Also when it is over: nothing holds it back then.
    running.push(waiting);
    for run in running {
        assert_eq!(
            farm.run(waiting).await.attempt,
            i32::from(run == waiting),
            "run {run}"
        );
        std::fs::write(farm.dir().join(format!("end.{run}")), "").expect("a file");
        farm.succeeds(run).await;
    }
    farm.check().await;
}

/// Before the first session, and while there is one.
#[tokio::test(flavor = "multi_thread")]
async fn sighup_while_the_database_is_away_is_in_the_nodes_row_when_it_is_back() {
    for (started, told) in [
        (false, "PostgreSQL does not answer"),
        (true, "slots, labels and state as they are now"),
    ] {
        let mut farm = Farm::new().proxied().ttl(CALM).prepare().await;
        let config = configured(&mut farm, "slots = 1\n");
        if started {
            farm.start_agents().await;
        }
        farm.agents[0].proxy().cut();
        if !started {
            farm.agents[0].spawn();
            says(&farm, told).await;
        }
        std::fs::write(&config, "slots = 2\n").expect("a configuration");
        farm.agents[0].signal(libc::SIGHUP);
        if started {
            says(&farm, told).await;
        }
        farm.agents[0].proxy().heal();
        slots(&farm, 2).await;
        farm.check().await;
    }
}

async fn says(farm: &Farm, text: &str) {
    farm.eventually(text, SOON, async || match farm.agents[0].log() {
        log if log.contains(text) => Ok(()),
        _ => Err(farm.agents[0].log_tail(20)),
    })
    .await;
}
