//! Whoever may write to the database may not have anything executed that nobody signed.

use std::time::Duration;

use farmhand_tests::farm::{Agent, Farm, Run, SOON};

/// A farm whose agents, or the first `keyed` of them, execute only what `alice` signed.
pub async fn farm(agents: usize, keyed: usize) -> Farm {
    // As long as those that start again may wait for its end.
    let ttl = Duration::from_secs(8);
    let mut farm = Farm::new().agents(agents).ttl(ttl).prepare().await;
    let dir = farm.dir().to_owned();
    let key = dir.join("alice.key");
    let made = farm.ok(&["key", "new", "alice", "-o", &key.display().to_string()]);
    let list = dir.join("trusted-keys");
    std::fs::write(&list, made).expect("the list of keys");
    for agent in &mut farm.agents[..keyed] {
        agent
            .arguments
            .extend(["--trusted-keys".to_owned(), list.display().to_string()]);
    }
    farm.start_agents().await;
    farm
}

/// Applies a job file, signed first.
pub fn signed(farm: &Farm, jobs: &str) {
    let file = farm.dir().join("jobs.toml");
    std::fs::write(&file, jobs).expect("the job file");
    let (file, key) = (file.display().to_string(), farm.dir().join("alice.key"));
    farm.ok(&["job", "sign", &file, "--key", &key.display().to_string()]);
    farm.ok(&[
        "job",
        "apply",
        &file,
        "--trusted-keys",
        &farm.dir().join("trusted-keys").display().to_string(),
    ]);
}

fn unsigned(farm: &Farm, jobs: &str) {
    let _ = std::fs::remove_file(farm.dir().join("jobs.toml.sig"));
    farm.apply(jobs);
}

fn says(text: &str) -> String {
    format!(
        "[job.a]\nretry = {{ max = 3, backoff = 'constant', base = '10ms' }}\ncommand = ['echo', '{text}']\n"
    )
}

/// The run ended at once, was tried once, and everybody can see why.
pub async fn refused(farm: &Farm, run_id: i64, why: &str) -> Run {
    let done = farm.over(run_id, SOON).await;
    assert_eq!(done.state, "failed", "{done:?}");
    let reason = done.reason.clone().unwrap_or_default();
    assert!(reason.contains(why), "{reason}");
    assert_eq!(
        farm.output(run_id, done.attempt).await,
        "",
        "nothing was executed"
    );
    farm.eventually("it is an event", SOON, async || {
        let events = farm.ok(&["events", "--run", &run_id.to_string(), "--json"]);
        (events.contains("definition_refused") && events.contains(&why.replace('"', "\\\"")))
            .then_some(())
            .ok_or(events)
    })
    .await;
    done
}

/// The database names the first revision again.
async fn replayed_is_refused(farm: &Farm) {
    farm.exec("UPDATE farmhand.job SET rev = 1").await;
    let replayed = farm.submit("a").await;
    refused(farm, replayed, "older than what this node has seen").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tampered_job_row_an_unsigned_job_and_a_forged_signature_are_refused_and_recorded() {
    let farm = farm(1, 1).await;
    signed(&farm, &says("good"));
    let good = farm.submit("a").await;
    farm.succeeds(good).await;
    assert_eq!(farm.output(good, 1).await, "good\n");
    let evil = r#"UPDATE farmhand.job_revision SET spec = jsonb_set(spec, '{command}', '["echo", "evil"]')"#;
    farm.exec(evil).await;
    let tampered = farm.submit("a").await;
    let done = refused(&farm, tampered, "not the one that \"alice\" signed").await;
    assert_eq!(done.attempt, 1, "another attempt would be refused too: {done:?}");
    let forged = "UPDATE farmhand.job_signature SET document = replace(document, 'good', 'evil')";
    farm.exec(forged).await;
    let run = farm.submit("a").await;
    refused(&farm, run, "does not fit the definition").await;
    let user = r#"UPDATE farmhand.job_revision SET spec = jsonb_set(spec, '{user}', '"root"')"#;
    farm.exec(user).await;
    let run = farm.submit("a").await;
    refused(&farm, run, "not signed by a trusted key").await;
    unsigned(&farm, &says("unsigned"));
    let run = farm.submit("a").await;
    refused(&farm, run, "the definition has no signature").await;
    let refusals = farm.agents[0]
        .metric("farmhand_refusals_total", &["by=\"signature\""])
        .await;
    assert_eq!(refusals, 4.0);
    let explained = farm.ok(&["explain", "job", "a"]);
    assert!(explained.contains("n1 would not run revision"), "{explained}");
    // Signed as it is, the same revision runs.
    signed(&farm, &says("unsigned"));
    let run = farm.submit("a").await;
    farm.succeeds(run).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_one_node_refuses_is_run_by_another_within_seconds_and_the_next_one_at_once() {
    let farm = farm(2, 1).await;
    unsigned(&farm, &says("unsigned"));
    let mut refused = 0;
    for _ in 0..6 {
        let run = farm.submit("a").await;
        let done = farm.over(run, SOON / 2).await;
        assert_eq!((done.state.as_str(), done.retries), ("succeeded", 0), "{done:?}");
        assert_eq!(done.running_at.as_deref(), Some("n2"));
        refused += done.attempt - 1;
    }
    assert!(
        refused <= 1,
        "whoever refused it leaves it alone: {refused} refusals"
    );
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_trusted_keys_change_checks_refused_runs_again() {
    let farm = farm(2, 1).await;
    let (bob, list) = (farm.dir().join("bob.key"), farm.dir().join("trusted-keys"));
    let public = farm.ok(&["key", "new", "bob", "-o", &bob.display().to_string()]);
    let file = farm.dir().join("jobs.toml");
    std::fs::write(&file, says("of bob")).expect("the job file");
    farm.ok(&[
        "job",
        "sign",
        &file.display().to_string(),
        "--key",
        &bob.display().to_string(),
    ]);
    farm.ok(&["job", "apply", &file.display().to_string()]);
    let refusals = async || {
        farm.value::<i64>("SELECT count(*) FROM farmhand.refusal WHERE address = 'n1'")
            .await
    };
    // Until n1 happens to be the one that claims it.
    farm.eventually("n1 refuses it", SOON, async || {
        let run = farm.submit("a").await;
        farm.succeeds(run).await;
        match refusals().await {
            0 => Err("n2 was first".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let alice = std::fs::read_to_string(&list).expect("the list");
    std::fs::write(&list, alice + &public).expect("one more key");
    farm.eventually("it is forgotten", SOON, async || match refusals().await {
        0 => Ok(()),
        n => Err(format!("{n}")),
    })
    .await;
    farm.ok(&["node", "cordon", "n2"]);
    let run = farm.submit("a").await;
    let done = farm.succeeds(run).await;
    assert_eq!(done.running_at.as_deref(), Some("n1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_run_of_a_farm_that_refuses_it_everywhere_ends_and_lets_the_next_one_go() {
    let farm = farm(2, 2).await;
    unsigned(&farm, &says("unsigned"));
    let run = farm.submit("a").await;
    let done = refused(&farm, run, "not signed by a trusted key").await;
    assert!(done.attempt <= 2, "each refuses it once: {done:?}");
    let next = farm.submit("a").await;
    let done = refused(&farm, next, "not signed by a trusted key").await;
    assert_eq!(done.attempt, 1, "both are known to refuse it: {done:?}");
    signed(&farm, &says("unsigned"));
    let run = farm.submit("a").await;
    farm.succeeds(run).await;
}

/// What a node has seen of each job.
fn seen(farm: &Farm) -> Vec<String> {
    let read =
        |a: &Agent| std::fs::read_to_string(a.state_dir.join("warden/seen-serials")).unwrap_or_default();
    farm.agents.iter().map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_revision_is_refused_by_nodes_that_have_seen_and_never_run_the_new_one() {
    let mut farm = farm(2, 2).await;
    signed(&farm, &says("old"));
    let old = farm
        .eventually("both have seen the old one", SOON, async || {
            let seen = seen(&farm);
            match seen.iter().all(|s| s.ends_with(" a\n")) {
                true => Ok(seen),
                false => Err(format!("{seen:?}")),
            }
        })
        .await;
    signed(&farm, &says("new"));
    farm.eventually("both have seen the new one", SOON, async || {
        let now = seen(&farm);
        match now.iter().zip(&old).all(|(now, old)| now != old) {
            true => Ok(()),
            false => Err(format!("{now:?}")),
        }
    })
    .await;
    let warned = farm.farmhand(&["job", "rollback", "a", "1", "--dry-run"]);
    let said = String::from_utf8_lossy(&warned.stdout).into_owned();
    assert!(said.contains("nodes with trusted keys will refuse it"), "{said}");
    replayed_is_refused(&farm).await;
    for agent in &mut farm.agents {
        agent.kill_with_wardens();
        agent.start().await;
    }
    let again = farm.submit("a").await;
    refused(&farm, again, "older than what this node has seen").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changed_since_it_was_signed_is_not_applied() {
    let farm = farm(1, 1).await;
    signed(&farm, &says("good"));
    let file = farm.dir().join("jobs.toml");
    std::fs::write(&file, says("evil")).expect("a changed file");
    let output = farm.farmhand(&["job", "apply", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("changed since it was signed"), "{said}");
    assert_eq!(
        farm.value::<i64>("SELECT count(*) FROM farmhand.job_revision")
            .await,
        1
    );
}

/// Who may write rows of tasks could leave out the one on which the others build.
#[tokio::test(flavor = "multi_thread")]
async fn a_signed_flow_is_not_told_by_a_row_that_a_task_is_done() {
    let farm = farm(1, 1).await;
    let flow = |name: &str, resume: &str| {
        format!(
            "[job.{name}]\nresume = '{resume}'\n[job.{name}.task.first]\ncommand = 'echo did it'\n\
             [job.{name}.task.second]\ncommand = 'false'\nrequires = ['first']\n"
        )
    };
    signed(
        &farm,
        &(flow("whole", "restart") + &flow("rest", "skip-finished")),
    );
    for (job, runs_again) in [("whole", true), ("rest", false)] {
        let failed = farm.submit(job).await;
        assert_eq!(farm.over(failed, SOON).await.state, "failed");
        let said = farm.ok(&["run", "retry", "--from-failed", &failed.to_string(), "--json"]);
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let again = said["run_id"].as_i64().expect("the new run");
        assert_eq!(farm.over(again, SOON).await.state, "failed");
        let output = farm.output(again, 1).await;
        assert_eq!(output.contains("did it"), runs_again, "{output}");
        let told = "run again, although the database says that they had succeeded: first;";
        assert_eq!(output.contains(told), runs_again, "{output}");
    }
}
