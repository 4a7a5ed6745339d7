//! Agents whose logins are bound to their nodes do all that agents do.

use farmhand_tests::farm::{Farm, SOON, TAKEOVER};

const JOBS: &str = r#"
[job.tick]
schedule = "* * * * * *"
command = [WITNESS, "50", "say=1"]

[job.long]
timeout = "10m"
command = [WITNESS, "600000"]

[job.brief]
retry = { max = 2, backoff = "constant", base = "10ms" }
command = 'test "$FARMHAND_ATTEMPT" -gt 1'

[job.shards]
instances = 4
command = "true"

[job.rounds]
schedule = "@continuous"
idle_exit = [3]
idle_delay = "100ms"
command = "exit 3"

[job.everywhere]
run_on = "each-node"
command = "true"

[job.locked]
locks = ["one"]
command = "true"

[job.after]
triggered_by = ["shards"]
command = "true"

[job.flow.task.a]
command = "true"
[job.flow.task.b]
command = "true"
after = ["a"]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_farm_of_bound_logins_runs_takes_over_and_finishes() {
    let mut farm = Farm::new().agents(2).prepare().await;
    for agent in &mut farm.agents {
        let url = farm
            .database
            .agent_url()
            .replace("farm_agent", &format!("farm_{}", agent.address));
        agent.env.push(("FARMHAND_DATABASE_URL".to_owned(), url));
    }
    farm.ok(&["node", "bind", "n1", "farm_n1"]);
    farm.ok(&["node", "bind", "n2", "farm_n2"]);
    farm.start_agents().await;
    assert!(farm.ok(&["node", "ls"]).contains("farm_n1"));
    farm.apply(JOBS);
    for job in ["brief", "shards", "everywhere", "locked", "flow"] {
        let first = farm.submit(job).await;
        farm.succeeds(first).await;
    }
    let after = farm.first_run("after").await;
    farm.succeeds(after.run_id).await;
    // Killed with all that it runs: the other one takes over, and ends it.
    let long = farm.submit("long").await;
    let held = farm.lives(long, 1).await.running_at.expect("a holder");
    farm.agent(&held).kill_with_wardens();
    farm.eventually("it is taken over", TAKEOVER + SOON, async || {
        let run = farm.run(long).await;
        match &run.running_at {
            Some(at) if *at != held => Ok(()),
            _ => Err(format!("{run:?}")),
        }
    })
    .await;
    farm.lives(long, 2).await;
    farm.agent(&held).start().await;
    farm.ok(&["run", "cancel", &long.to_string()]);
    let ended = farm.over(long, SOON).await;
    assert_eq!(ended.state, "cancelled", "{ended:?}");
    // And both go on.
    let shards = farm.submit("shards").await;
    farm.succeeds(shards).await;
    let everywhere = farm.submit("everywhere").await;
    farm.succeeds(everywhere).await;
    let tick = farm.first_run("tick").await;
    farm.succeeds(tick.run_id).await;
    let refused = (farm.agents.iter())
        .flat_map(|agent| agent.log().lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.contains("is bound to"))
        .collect::<Vec<_>>();
    assert!(refused.is_empty(), "{refused:#?}");
    // The last binding goes, and any login may act again.
    farm.ok(&["node", "unbind", "n1"]);
    farm.ok(&["node", "unbind", "n2"]);
    let free = farm.submit("shards").await;
    farm.succeeds(free).await;
    farm.check().await;
}
