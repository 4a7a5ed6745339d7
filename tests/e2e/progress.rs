//! Jobs that say how far they have come, and what becomes of those that fall silent.

use farmhand_tests::farm::{CALM, Farm, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reports_with_the_command_and_people_see_it() {
    let farm = Farm::new()
        .jobs(
            r#"
            [job.copy]
            command = '''
            "$FARMHAND_BINARY" progress 'half of "it"'
            "$FARMHAND_BINARY" progress
            "$FARMHAND_BINARY" progress "$(printf 'two\nlines')" || echo "lines: $?"
            "$FARMHAND_BINARY" progress "$(head -c 4096 /dev/zero | tr '\0' x)" || echo "long: $?"
            head -c 4096 /dev/zero | tr '\0' x >&$FARMHAND_PROGRESS_FD; echo >&$FARMHAND_PROGRESS_FD
            "$FARMHAND_BINARY" progress 3>&- || echo "closed: $?"
            echo done
            sleep 3
            '''
            "#
            .replace(
                "$FARMHAND_BINARY",
                &farmhand_tests::bin::farmhand().display().to_string(),
            )
            .as_str(),
        )
        .start()
        .await;
    let run_id = farm.submit("copy").await;
    let shown = farm
        .eventually("the checkpoint is shown", SOON, async || {
            let text = farm.ok(&["--json", "run", "show", &run_id.to_string()]);
            let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
            match shown["progress"]["checkpoint"].as_str() {
                Some(_) if shown["run"]["state"] == "running" => Ok(shown),
                _ => Err(text),
            }
        })
        .await;
    assert_eq!(shown["progress"]["checkpoint"], "half of \"it\"");
    assert_eq!(shown["progress"]["attempt"], 1);
    assert!(shown["progress"]["age_ms"].as_i64().unwrap() < 20_000);
    farm.succeeds(run_id).await;
    let output = farm.output(run_id, 1).await;
    for part in ["lines: 2", "long: 2", "4095 are the most", "closed: 1", "done"] {
        assert!(output.contains(part), "{part}: {output}");
    }
    let said: String = farm
        .value(&format!(
            "SELECT string_agg(convert_from(chunk, 'UTF8'), '') FROM farmhand.run_log
             WHERE run_id = {run_id} AND stream = 'agent'"
        ))
        .await;
    assert!(said.contains("longer than 4095 bytes"), "{said}");
    let text = farm.ok(&["run", "show", &run_id.to_string()]);
    assert!(text.contains("half of"), "{text}");
    let outside = farm.farmhand(&["progress", "x"]);
    assert_eq!(outside.status.code(), Some(2));
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_an_attempt_and_the_next_goes_on_from_its_checkpoint() {
    let farm = Farm::new()
        .jobs(
            r#"
            [job.hangs]
            progress_timeout = '4s'
            retry = { max = 1, backoff = 'constant', base = '100ms' }
            grace = '200ms'
            command = '''
            echo "from ${FARMHAND_CHECKPOINT-the start}"
            [ -z "${FARMHAND_CHECKPOINT-}" ] || exit 0
            for n in 1 2 3 4; do sleep 1.2; echo "$n" >&$FARMHAND_PROGRESS_FD; done
            sleep 600
            '''
            "#,
        )
        .start()
        .await;
    let run_id = farm.submit("hangs").await;
    let done = farm.succeeds(run_id).await;
    assert_eq!((done.attempt, done.retries), (2, 1), "{done:?}");
    let first = farm.attempts(run_id).await.remove(0);
    assert_eq!(first.outcome, "timed_out");
    assert!(first.reason.unwrap().contains("progress"));
    assert_eq!(farm.output(run_id, 2).await, "from 4\n");
    let silent = ["type=\"progress\""];
    farm.counts(&farm.agents[0], "farmhand_timeouts_total", &silent, 1.0)
        .await;
    farm.counts(&farm.agents[0], "farmhand_retries_total", &[], 1.0)
        .await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_child_is_ended_by_name_and_the_attempt_goes_on() {
    let farm = Farm::new()
        .jobs(
            r#"
            [job.fetch]
            grace = '1s'
            child_limits = [{ name = 'sleep', max_age = '700ms' }, { name = 'tail', max_memory = '1GiB' }]
            command = '''
            sleep 600 || echo "sleep ended with $?"
            sh -c 'trap "" TERM; exec sleep 601' || echo "the stubborn one with $?"
            '''
            "#,
        )
        .start()
        .await;
    let run_id = farm.submit("fetch").await;
    farm.succeeds(run_id).await;
    let output = farm.output(run_id, 1).await;
    assert!(output.contains("sleep ended with 143"), "{output}");
    assert!(output.contains("the stubborn one with 137"), "{output}");
    farm.eventually("both are events", SOON, async || {
        match farm.events("child_killed").await {
            2 => Ok(()),
            n => Err(format!("{n} events")),
        }
    })
    .await;
    let said: String = farm
        .value(&format!(
            "SELECT string_agg(convert_from(chunk, 'UTF8'), '' ORDER BY seq) FROM farmhand.run_log
             WHERE run_id = {run_id} AND stream = 'agent'"
        ))
        .await;
    assert_eq!(said.matches("sleep").count(), 2, "{said}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_counts_while_the_agent_is_dead_and_what_was_reported_is_there_when_it_is_back() {
    let mut farm = Farm::new()
        .ttl(CALM)
        .jobs(
            r#"
            [job.hangs]
            progress_timeout = '5s'
            command = '''
            echo early >&$FARMHAND_PROGRESS_FD
            sleep 1
            echo late >&$FARMHAND_PROGRESS_FD
            sleep 600
            '''
            "#,
        )
        .start()
        .await;
    let run_id = farm.submit("hangs").await;
    farm.eventually("the early one is stored", SOON, async || {
        let stored: Option<String> = farm.value("SELECT max(checkpoint) FROM farmhand.progress").await;
        stored.ok_or_else(|| "nothing stored".to_owned())
    })
    .await;
    farm.agents[0].kill();
    farm.eventually("silence ended it", SOON, async || {
        match farm.processes_of_run(run_id).len() {
            0 => Ok(()),
            n => Err(format!("{n} left")),
        }
    })
    .await;
    farm.agents[0].start().await;
    let done = farm.over(run_id, SOON).await;
    assert_eq!((done.state.as_str(), done.attempt), ("timed_out", 1), "{done:?}");
    let stored: String = farm.value("SELECT checkpoint FROM farmhand.progress").await;
    assert_eq!(stored, "late");
    farm.check().await;
}
