//! What a definition says about its attempts.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_tried_again_after_its_pause_and_no_more_often_than_asked() {
    let farm = Farm::new()
        .ttl(CALM)
        .jobs(
            "[job.flaky]\nretry = { max = 2, backoff = 'constant', base = '500ms' }\n
             command = [WITNESS, '50', 'exit=3']\n",
        )
        .start()
        .await;
    let run_id = farm.submit("flaky").await;
    let done = farm.over(run_id, SOON).await;
    assert_eq!(
        (done.state.as_str(), done.attempt, done.retries, done.exit_code),
        ("failed", 3, 2, Some(3)),
        "{done:?}"
    );
    let lives = farm.witness.lives(run_id);
    assert_eq!(lives.len(), 3);
    // Full jitter: the pause is anything up to the base; it is the attempts that are counted.
    for attempt in farm.attempts(run_id).await {
        assert_eq!(attempt.outcome, "failed");
    }
    farm.counts(&farm.agents[0], "farmhand_retries_total", &[], 2.0)
        .await;
    farm.check().await;
}

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
async fn cancelling_ends_a_running_run_at_once_and_a_waiting_one_before_it_starts() {
    let farm = Farm::new()
        .slots(1)
        .jobs("[job.long]\ngrace = '300ms'\ncommand = [WITNESS, '30000', 'ignore-term', 'daemon']\n")
        .start()
        .await;
    let (running, waiting) = (farm.submit("long").await, farm.submit("long").await);
    farm.lives(running, 1).await;
    farm.ok(&["run", "cancel", &waiting.to_string()]);
    farm.ok(&["run", "cancel", &running.to_string()]);
    for run_id in [running, waiting] {
        assert_eq!(farm.over(run_id, SOON).await.state, "cancelled");
    }
    assert!(farm.witness.lives(waiting).is_empty());
    assert!(farm.processes_of_run(running).is_empty());
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_instants_are_skipped_queued_replaced_or_run_beside_as_defined() {
    let job = |name: &str, lives: u32| {
        format!(
            "[job.{name}]\nschedule = '* * * * * *'\noverlap = '{name}'\ngrace = '100ms'\n
             command = [WITNESS, '{lives}']\n"
        )
    };
    let jobs = [
        job("skip", 2500),
        job("queue", 1300),
        job("replace", 2500),
        job("allow", 2500),
    ]
    .concat();
    let farm = Farm::new().slots(16).jobs(&jobs).start().await;
    farm.eventually("all of it has been seen", SOON, async || {
        let mut seen = Vec::new();
        for job in ["skip", "queue", "replace", "allow"] {
            let runs = farm.runs(job).await;
            let count = |state: &str| runs.iter().filter(|r| r.state == state).count();
            seen.push((
                job,
                count("succeeded"),
                count("skipped"),
                count("cancelled"),
                count("due"),
                count("running"),
            ));
        }
        let [skip, queue, replace, allow] = &seen[..] else {
            unreachable!()
        };
        let done =
            skip.1 >= 2 && skip.2 >= 1 && queue.1 >= 2 && queue.4 >= 1 && replace.3 >= 2 && allow.5 >= 2;
        if done { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    farm.ok(&["job", "pause", "skip"]);
    for job in ["skip", "queue", "replace"] {
        one_at_a_time(&farm, job);
    }
    for run in farm.runs("skip").await.iter().filter(|r| r.state == "skipped") {
        assert_eq!(run.reason.as_deref(), Some("overlap"), "{run:?}");
    }
    farm.check().await;
}

/// No two runs of the job were alive at one moment.
fn one_at_a_time(farm: &Farm, job: &str) {
    let mut alive = None;
    for line in farm.witness.lines().iter().filter(|l| l.job == job) {
        assert!(
            alive.is_none_or(|run| run <= line.run),
            "{job}: {line:?} while run {alive:?} had begun"
        );
        alive = Some(line.run);
    }
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
        if output == "second\n" {
            Ok(())
        } else {
            Err(format!("{last:?} {output}"))
        }
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
        if now > paused {
            Ok(())
        } else {
            Err(format!("run {now}"))
        }
    })
    .await;
    farm.check().await;
}
