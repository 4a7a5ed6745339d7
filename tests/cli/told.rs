//! What commands tell is what page and API tell.

use serde_json::json;

use super::farm::Farm;

#[tokio::test(flavor = "multi_thread")]
async fn status_gives_the_verdict_of_the_page() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\n[job.b]\ncommand = 'true'\n");
    let client = farm.db.client().await;
    client.exec(
        "INSERT INTO farmhand.node (address, name, incarnation, session, renewals, open, lease_until, ttl_ms, slots, labels,
             version, started_at, lost_at)
         SELECT 'n' || n, 'n' || n, gen_random_uuid(), 1, 1, n = 1, now() + interval '1 hour', 3600000, 4, '{}', 'x', now(),
             CASE n WHEN 2 THEN now() - interval '3 minutes' END
         FROM generate_series(1, 2) n;
         INSERT INTO farmhand.job_stat (job_id, last_state, last_finished, consecutive_failures)
         VALUES ('a', 'failed', now(), 3), ('b', 'failed', now(), 5);
         UPDATE farmhand.job SET paused = true, paused_by = 'x', paused_at = now() WHERE job_id = 'b';
         INSERT INTO farmhand.run_live (job_id, rev, kind, instance, due_at, ready_at)
         VALUES ('a', 1, 'submitted', 0, now() - interval '22 minutes', now() - interval '22 minutes')"
    ).await;
    let run = farm.run(&["run", "ls", "--json"]).json()["items"][0]["run_id"].to_string();
    let findings = [
        format!("run {run} of a has waited 22 min for a free slot"),
        "1 node is lost: n2".to_owned(),
        "1 job is failing: a, 3 failures in a row".to_owned(),
    ];
    let shown = farm.run(&["status"]).ok();
    let said: Vec<&str> = (shown.out.lines())
        .filter_map(|l| Some(l.strip_prefix("! ")?.split_once(" [")?.0))
        .collect();
    assert_eq!(said, findings, "{shown:?}");
    assert!(shown.out.contains("trouble"), "{shown:?}");
    assert!(!shown.out.contains("\nb "), "a paused job is quiet: {shown:?}");
    let told = farm.run(&["status", "--json"]).json();
    assert_eq!(told["level"], "trouble", "{told:#}");
    let texts: Vec<&str> = (told["findings"].as_array().unwrap().iter())
        .filter_map(|f| f["text"].as_str())
        .collect();
    assert_eq!(texts, findings, "{told:#}");
    let top = farm.run(&["top", "--once"]).ok();
    let said: Vec<&str> = (top.out.lines())
        .filter_map(|l| Some(l.strip_prefix("! ")?.split_once(" [")?.0))
        .collect();
    assert_eq!(said, findings, "{top:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_submitted_by_a_command_is_recorded_with_who() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\n");
    for rule in ["allow", "queue"] {
        let run = farm.run(&["job", "run", "a", "--overlap", rule, "--json"]).json();
        let run = run["run_id"].as_i64().unwrap();
        let number = run.to_string();
        let events = farm
            .run(&["events", "--run", &number, "--kind", "run_submitted", "--json"])
            .json();
        let events = events["items"].as_array().unwrap();
        assert_eq!(events.len(), 1, "{rule}: {events:#?}");
        let by = events[0]["detail"]["by"].as_str().unwrap();
        assert!(by.starts_with("tester@"), "{by}");
        let shown = farm.run(&["run", "show", &number, "--json"]).json();
        assert_eq!(shown["run"]["submitted_by"], json!(by), "{rule}");
    }
    // A repetition makes no run, and so no event.
    for _ in 0..2 {
        farm.run(&["job", "run", "a", "--idempotency-key", "k"]).ok();
    }
    let all = farm.run(&["events", "--kind", "run_submitted", "--json"]).json();
    assert_eq!(all["items"].as_array().unwrap().len(), 3, "{all:#}");
}
