//! Where runs may be: labels, each node, cordons; and what a kill -9 changes about it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON, TTL};

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
async fn only_a_node_with_the_labels_runs_it_also_after_the_first_one_dies() {
    let jobs = "[job.batch]\nwhere = { role = 'batch' }\ncommand = [WITNESS, '3000', 'daemon']\n";
    let mut farm = labelled(TTL, &["web", "batch", "batch"], jobs).await;
    let run_id = farm.submit("batch").await;
    let first = farm.lives(run_id, 1).await.running_at.expect("a node");
    assert_ne!(first, "n1");
    farm.agent(&first).kill_with_wardens();
    let second = farm.lives(run_id, 2).await.running_at.expect("a node");
    assert!(second != first && second != "n1", "{second} after {first}");
    farm.agent(&second).kill_with_wardens();
    farm.eventually("nobody may take it", SOON, async || {
        match farm.run(run_id).await {
            run if run.state == "due" && run.takeovers == 2 => Ok(()),
            run => Err(format!("{run:?}")),
        }
    })
    .await;
    let why = farm.ok(&["explain", "job", "batch"]);
    assert!(
        why.contains("none of them is ready: n2 is lost, n3 is lost"),
        "{why}"
    );
    farm.agent(&first).start().await;
    let done = farm.succeeds(run_id).await;
    assert_eq!(
        (done.attempt, done.running_at.as_deref()),
        (3, Some(first.as_str())),
        "{done:?}"
    );
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_each_node_reaches_later_joiners_and_its_runs_never_move() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs("[job.each]\nschedule = '*/2 * * * * *'\nrun_on = 'each-node'\ncommand = [WITNESS, '1500']\n")
        .start()
        .await;
    farm.eventually("both nodes have run it", SOON, async || {
        match runs_by_node(&farm).await {
            runs if runs.len() == 2 => Ok(()),
            runs => Err(format!("{runs:?}")),
        }
    })
    .await;
    farm.add_agent("n3").await;
    farm.eventually("the third has run it", SOON, async || {
        match runs_by_node(&farm).await {
            runs if runs.len() == 3 => Ok(()),
            runs => Err(format!("{runs:?}")),
        }
    })
    .await;
    let early: i64 = farm
        .value(
            "SELECT count(*) FROM farmhand.run r JOIN farmhand.node n ON n.address = r.node
             WHERE r.node = 'n3' AND r.due_at < n.started_at - interval '1 second'",
        )
        .await;
    assert_eq!(early, 0, "an instant from before a node joined is not run there");

    // One dies with its run: nobody else does it, and it is done there later.
    let running = farm
        .eventually("n2 runs it", SOON, async || {
            let runs = farm.runs("each").await;
            let held = runs
                .into_iter()
                .find(|r| r.state == "running" && r.running_at.as_deref() == Some("n2"));
            held.filter(|r| farm.witness.has_just_begun(r.run_id))
                .ok_or_else(|| "not now".to_owned())
        })
        .await;
    farm.agent("n2").kill_with_wardens();
    farm.event("expired").await;
    farm.agent("n2").start().await;
    let done = farm.succeeds(running.run_id).await;
    assert_eq!(
        (done.attempt, done.running_at.as_deref()),
        (2, Some("n2")),
        "{done:?}"
    );
    farm.ok(&["job", "pause", "each"]);
    let strays: i64 = farm
        .value("SELECT count(*) FROM farmhand.run WHERE node IS NULL OR running_at <> node")
        .await;
    assert_eq!(strays, 0, "a run of an each-node job was elsewhere");
    farm.check().await;
}

async fn runs_by_node(farm: &Farm) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for run in farm
        .runs("each")
        .await
        .into_iter()
        .filter(|r| r.state == "succeeded")
    {
        *count.entry(run.running_at.expect("a node")).or_default() += 1;
    }
    count
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
    farm.eventually("the row has the slots", SOON, async || {
        let sql = "SELECT coalesce(max(slots), 0) FROM farmhand.node";
        match farm.value::<i32>(sql).await {
            found if found == wanted => Ok(()),
            found => Err(format!("{found} slots\n{}", farm.agents[0].log_tail(10))),
        }
    })
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

#[tokio::test(flavor = "multi_thread")]
async fn sighup_before_the_first_session_is_heeded_when_there_is_one() {
    let mut farm = Farm::new().proxied().ttl(CALM).prepare().await;
    let config = configured(&mut farm, "slots = 1\n");
    farm.agents[0].proxy().cut();
    farm.agents[0].spawn();
    says(&farm, "PostgreSQL does not answer").await;
    std::fs::write(&config, "slots = 2\n").expect("a configuration");
    farm.agents[0].signal(libc::SIGHUP);
    farm.agents[0].proxy().heal();
    slots(&farm, 2).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_while_the_database_is_away_is_in_the_nodes_row_when_it_is_back() {
    let mut farm = Farm::new().proxied().ttl(CALM).prepare().await;
    let config = configured(&mut farm, "slots = 1\n");
    farm.start_agents().await;
    farm.agents[0].proxy().cut();
    std::fs::write(&config, "slots = 2\n").expect("a configuration");
    farm.agents[0].signal(libc::SIGHUP);
    says(&farm, "slots, labels and state as they are now").await;
    farm.agents[0].proxy().heal();
    slots(&farm, 2).await;
    farm.check().await;
}

async fn says(farm: &Farm, text: &str) {
    farm.eventually(text, SOON, async || match farm.agents[0].log() {
        log if log.contains(text) => Ok(()),
        _ => Err(farm.agents[0].log_tail(20)),
    })
    .await;
}
