//! What a definition says about its attempts.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_the_whole_tree_and_the_run() {
    let farm = Farm::new()
        .jobs("[job.slow]\ntimeout = '2s'\ngrace = '300ms'\ncommand = [WITNESS, '30000', 'ignore-term', 'daemon']\n")
        .start()
        .await;
    let run_id = farm.submit("slow").await;
    let done = farm.over(run_id, SOON).await;
    assert_eq!(done.state, "timed_out", "{done:?}");
    let life = farm.witness.life(run_id, 1);
    let lived = Duration::from_nanos(life.last - life.first);
    assert!(
        lived >= Duration::from_secs(1) && lived < Duration::from_secs(8),
        "{lived:?}"
    );
    assert!(farm.processes_of_run(run_id).is_empty());
    let timeouts = ["type=\"run\""];
    farm.counts(&farm.agents[0], "farmhand_timeouts_total", &timeouts, 1.0)
        .await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_agent_runs_more_than_its_slots() {
    let farm = Farm::new()
        .agents(2)
        .ttl(CALM)
        .slots(2)
        .jobs("[job.work]\ncommand = [WITNESS, '300']\n")
        .start()
        .await;
    let mut runs = Vec::new();
    for _ in 0..14 {
        runs.push(farm.submit("work").await);
    }
    for run_id in &runs {
        farm.succeeds(*run_id).await;
    }
    // The lives of each node, as intervals: never more than two at a time.
    let lives: Vec<_> = runs.iter().map(|r| farm.witness.life(*r, 1)).collect();
    for life in &lives {
        let beside = lives
            .iter()
            .filter(|l| l.node == life.node && l.first <= life.first && life.first <= l.last);
        assert!(beside.count() <= 2, "{} runs too much: {lives:#?}", life.node);
    }
    let nodes: std::collections::BTreeSet<&str> = lives.iter().map(|l| l.node.as_str()).collect();
    assert_eq!(nodes.len(), 2, "both take part");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_picked_up_paused_and_resumed_without_a_restart() {
    let farm = Farm::new().agents(2).start().await;
    farm.apply("[job.tick]\nschedule = '* * * * * *'\ncommand = 'echo first'\n");
    let first = farm.first_run("tick").await;
    farm.succeeds(first.run_id).await;
    assert_eq!(farm.output(first.run_id, 1).await, "first\n");
    farm.apply("[job.tick]\nschedule = '* * * * * *'\ncommand = 'echo second'\n");
    farm.eventually("the new definition", SOON, async || {
        let last = farm.runs("tick").await.pop().expect("a run");
        let output = farm.output(last.run_id, 1).await;
        (output == "second\n")
            .then_some(())
            .ok_or_else(|| format!("{last:?} {output}"))
    })
    .await;
    farm.ok(&["job", "pause", "tick"]);
    farm.eventually("everything of it is over", SOON, async || {
        match farm.runs("tick").await.into_iter().find(|r| !r.is_over()) {
            None => Ok(()),
            Some(run) => Err(format!("{run:?}")),
        }
    })
    .await;
    let begun = "SELECT max(run_id) FROM farmhand.run WHERE state <> 'skipped'";
    let paused = farm.value::<i64>(begun).await;
    let until = farmhand_tests::witness::boot_ns() + 2_200_000_000;
    farm.eventually("two instants pass", SOON, async || {
        match farmhand_tests::witness::boot_ns() > until {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        }
    })
    .await;
    assert_eq!(farm.value::<i64>(begun).await, paused);
    farm.ok(&["job", "resume", "tick"]);
    farm.eventually("it goes on", SOON, async || {
        let now = farm
            .value::<i64>("SELECT max(run_id) FROM farmhand.run WHERE state = 'succeeded'")
            .await;
        (now > paused).then_some(()).ok_or_else(|| format!("run {now}"))
    })
    .await;
    farm.check().await;
}
