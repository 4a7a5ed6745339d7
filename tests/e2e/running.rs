//! From a line in a job file to one recorded run.

use farmhand_tests::bench::statements;
use farmhand_tests::farm::{CALM, Farm, SOON};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_command_is_claimed_executed_recorded_and_visible() {
    let farm = Farm::new()
        .agents(2)
        .jobs(
            r#"
            [job.tick]
            schedule = "* * * * * *"
            command = [WITNESS, "100", "say=2"]
            "#,
        )
        .start()
        .await;
    let runs = farm
        .eventually("three runs succeed", SOON, async || {
            let runs = farm.runs("tick").await;
            let good = runs.iter().filter(|r| r.state == "succeeded").count();
            if good >= 3 {
                Ok(runs)
            } else {
                Err(format!("{runs:?}"))
            }
        })
        .await;
    let first = &runs[0];
    assert_eq!((first.attempt, first.exit_code), (1, Some(0)), "{first:?}");
    assert_eq!(farm.output(first.run_id, 1).await, "line 1\nline 2\n");
    let listed = farm.ok(&["run", "ls", "--json"]);
    assert!(
        listed.contains(&format!("\"run_id\":{}", first.run_id))
            || listed.contains(&format!("\"run_id\": {}", first.run_id)),
        "{listed}"
    );
    let logged = farm.ok(&["run", "logs", &first.run_id.to_string()]);
    assert!(logged.contains("line 2"), "{logged}");
    farm.eventually("they are counted", SOON, async || {
        let mut done = 0.0;
        for agent in &farm.agents {
            done += agent
                .metric("farmhand_runs_finished_total", &["outcome=\"succeeded\""])
                .await;
        }
        (done >= 3.0).then_some(()).ok_or_else(|| done.to_string())
    })
    .await;
    farm.check().await;
}

/// As when the database's clock is behind what an agent takes it to be, or something holds the job's row.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_alone_could_not_fire_is_tried_again_soon_and_with_pauses() {
    let farm = Farm::new()
        .agents(1)
        .ttl(CALM)
        .jobs("[job.tick]\nschedule = '*/5 * * * * *'\ncommand = [WITNESS, '10']\n")
        .start()
        .await;
    farm.first_run("tick").await;
    let holder = farm.database.client().await;
    let until = |seconds: f64| {
        format!(
            "SELECT pg_sleep(greatest(0, extract(epoch FROM next_run - clock_timestamp()) + {seconds})) FROM farmhand.job"
        )
    };
    let (soon, after) = (until(-0.5), until(2.0));
    holder.exec(&format!("BEGIN; {soon}")).await;
    let lock = "SELECT next_run::text FROM farmhand.job FOR UPDATE";
    let due: String = holder.value(lock).await;
    let tries = async || statements(&farm.agents[0]).await["fire"];
    let before = tries().await;
    holder.exec(&format!("{after}; COMMIT")).await;
    let tried = tries().await - before;
    assert!((2.0..10.0).contains(&tried), "{tried} times");
    let late = format!(
        "SELECT max(extract(epoch FROM claimed_at - due_at))::float8 FROM farmhand.run WHERE due_at = '{due}'"
    );
    let late: f64 = farm
        .eventually("it is claimed", SOON, async || {
            let late: Option<f64> = farm.value(&late).await;
            late.ok_or_else(|| format!("{:?}", farm.processes()))
        })
        .await;
    assert!(late < 4.0, "{late} s: a poll of its own found it");
}

/// Applied by a newer release while this agent runs: a word that it does not know, or something else to run than a command, a
/// flow or a stream. It waits for an agent that knows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_of_a_newer_release_is_given_back_and_does_not_fail() {
    let farm = short().await;
    let spec: Value = farm.value("SELECT spec FROM farmhand.job_revision").await;
    let alter = async |change: Value| {
        let mut spec = spec.clone();
        let change = change.as_object().expect("an object").clone();
        spec.as_object_mut().expect("an object").extend(change);
        let update = "UPDATE farmhand.job_revision SET spec = $1";
        farm.sql.exec_with(update, &[&spec]).await;
    };
    for newer in [
        json!({"overlap": "of_the_future"}),
        json!({"command": null, "container": {"image": "of_the_future"}}),
    ] {
        alter(newer).await;
        let run_id = farm.submit("short").await;
        is_given_back(&farm, run_id).await;
        alter(json!({})).await;
        farm.succeeds(run_id).await;
    }
    farm.check().await;
}

/// No warden takes it, here or elsewhere: written by SQL, past what a job file is checked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_no_warden_takes_fails_its_run_and_says_why() {
    let farm = short().await;
    let odd = "UPDATE farmhand.job_revision SET spec = spec || jsonb_build_object('secrets',
        jsonb_build_object(repeat('x', 201), 'entry'))";
    farm.exec(odd).await;
    let run_id = farm.submit("short").await;
    let over = farm.over(run_id, SOON).await;
    assert_eq!((over.state.as_str(), over.attempt), ("failed", 1), "{over:?}");
    assert!(
        over.reason.as_ref().is_some_and(|why| why.contains("secret")),
        "{over:?}"
    );
    farm.check().await;
}

/// What made it may ask for more at its end than this agent would do.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_kind_that_only_a_newer_release_knows_is_given_back_and_does_not_fail() {
    let farm = short().await;
    let newer = "ALTER TABLE farmhand.run_live DROP CONSTRAINT run_live_kind_check;
        CREATE FUNCTION of_the_future() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN NEW.kind := 'of_the_future'; RETURN NEW; END $$;
        CREATE TRIGGER of_the_future BEFORE INSERT ON farmhand.run_live FOR EACH ROW EXECUTE FUNCTION of_the_future()";
    farm.exec(newer).await;
    let run_id = farm.submit("short").await;
    is_given_back(&farm, run_id).await;
    let known = "UPDATE farmhand.run_live SET kind = 'submitted'";
    farm.exec(known).await;
    farm.succeeds(run_id).await;
    farm.check().await;
}

/// So job files with it are applied after the last node is upgraded.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_only_a_newer_release_knows_is_not_honoured_and_the_command_runs() {
    let farm = short().await;
    let newer = "UPDATE farmhand.job_revision SET spec = spec || '{\"key_of_the_future\": true}'";
    farm.exec(newer).await;
    let run_id = farm.submit("short").await;
    assert_eq!(farm.succeeds(run_id).await.attempt, 1);
    farm.check().await;
}

async fn short() -> Farm {
    let jobs = "[job.short]\ncommand = [WITNESS, '50']\n";
    Farm::new().jobs(jobs).start().await
}

async fn is_given_back(farm: &Farm, run_id: i64) {
    farm.eventually("it is given back", SOON, async || {
        let run = farm.run(run_id).await;
        match run.state.as_str() {
            "due" if run.attempt > 0 => Ok(()),
            _ => Err(format!("{run:?}")),
        }
    })
    .await;
    farm.event("bad_definition").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_a_killed_agent_did_not_write_down_is_written_by_the_next_one() {
    let mut farm = Farm::new()
        .ttl(CALM)
        .jobs("[job.long]\ncommand = [WITNESS, '60000']\n")
        .start()
        .await;
    let run = farm.submit("long").await;
    farm.becomes(SOON, "SELECT started_at IS NOT NULL FROM farmhand.run_live", true)
        .await;
    farm.agents[0].kill();
    // As if it was killed before it had written that.
    farm.exec("UPDATE farmhand.run_live SET started_at = NULL").await;
    farm.agents[0].start().await;
    let shown = format!(
        "SELECT coalesce(started_at BETWEEN claimed_at - interval '1 minute' AND clock_timestamp(), false)
         FROM farmhand.run WHERE run_id = {run}"
    );
    farm.becomes(SOON, &shown, true).await;
    let now = farm.run(run).await;
    assert_eq!((now.state.as_str(), now.attempt), ("running", 1), "{now:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn instants_that_were_missed_are_recorded_and_counted_as_skipped() {
    let farm = Farm::new()
        .agents(1)
        .jobs(
            r#"
            [job.late]
            schedule = "0 0 1 1 *"
            catch_up.runs = "skip"
            command = [WITNESS, "10"]
            "#,
        )
        .start()
        .await;
    // As if the farm had been away over New Year.
    let away =
        "UPDATE farmhand.job SET next_run = date_trunc('year', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'";
    farm.exec(away).await;
    let missed = ["reason=\"missed\""];
    farm.counts(&farm.agents[0], "farmhand_skips_total", &missed, 1.0)
        .await;
    let runs = farm.runs("late").await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0].state, "skipped", "{runs:?}");
    farm.check().await;
}
