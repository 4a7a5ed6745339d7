//! What callers do, and that it is the same as what the command line does.

use farmhand_tests::farm::SOON;
use serde_json::{Value, json};

use super::client::send;
use super::fixture::Fixture;

async fn state(f: &Fixture, run: i64) -> String {
    let sql = "SELECT state FROM farmhand.run WHERE run_id = $1";
    f.farm.sql.query_one(sql, &[&run]).await.expect("the run").get(0)
}

pub async fn until(f: &Fixture, run: i64, wanted: &str) {
    let what = format!("run {run} is {wanted}");
    f.farm
        .eventually(&what, SOON, async || match state(f, run).await {
            is if is == wanted => Ok(()),
            other => Err(other),
        })
        .await;
}

/// Who did it, by the newest event of a kind.
async fn by(f: &Fixture, kind: &str) -> String {
    let sql = "SELECT detail->>'by' FROM farmhand.event WHERE kind = $1 ORDER BY event_id DESC LIMIT 1";
    f.farm
        .sql
        .query_one(sql, &[&kind])
        .await
        .expect("an event")
        .get(0)
}

fn first(answer: &Value) -> i64 {
    answer["runs"][0]
        .as_i64()
        .unwrap_or_else(|| panic!("no run: {answer}"))
}

#[tokio::test]
async fn a_run_is_submitted_once_per_key_previewed_cancelled_and_retried() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    let path = "/api/v1/jobs/long/runs";
    let count = async || -> i64 {
        let row = f
            .farm
            .sql
            .query_one("SELECT count(*) FROM farmhand.run", &[])
            .await;
        row.expect("a count").get(0)
    };

    let preview = f.post(&token, &format!("{path}?preview=true"), "").await.json();
    assert_eq!(
        (&preview["applied"], count().await),
        (&json!(false), 0),
        "{preview}"
    );
    assert_eq!(preview["cli"], "farmhand job run long");

    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", "monday")];
    let once = send(f.port, "POST", path, &headers, "").await.json();
    let twice = send(f.port, "POST", path, &headers, "").await.json();
    let run = first(&once);
    assert_eq!(first(&twice), run);
    assert_eq!(count().await, 1);
    until(&f, run, "running").await;
    let submitted: String = f
        .farm
        .sql
        .query_one("SELECT submitted_by FROM farmhand.run WHERE run_id = $1", &[&run])
        .await
        .unwrap()
        .get(0);
    assert_eq!(submitted, "api:ops@127.0.0.1");
    assert_eq!(by(&f, "run_submitted").await, submitted);

    let beside = f.post(&token, &format!("{path}?preview=true"), "").await.json();
    assert!(beside["twice"].is_string(), "{beside}");
    let skip = f.post(&token, path, r#"{"overlap": "skip"}"#).await.json();
    assert_eq!(state(&f, first(&skip)).await, "skipped");

    let cancel = format!("/api/v1/runs/{run}/cancel");
    let preview = f.post(&token, &format!("{cancel}?preview=true"), "").await.json();
    assert!(
        preview["what"].as_str().is_some_and(|w| w.contains("SIGTERM")),
        "{preview}"
    );
    assert_eq!(state(&f, run).await, "running");
    f.post(&token, &cancel, "").await.json();
    until(&f, run, "cancelled").await;
    assert_eq!(by(&f, "cancel").await, submitted);
    f.post(&token, &cancel, "").await.problem(409);

    let retry = format!("/api/v1/runs/{run}/retry");
    let again = send(f.port, "POST", &retry, &headers, "").await.json();
    let repeated = send(f.port, "POST", &retry, &headers, "").await.json();
    assert_eq!(first(&again), first(&repeated));
    assert_ne!(first(&again), run);
    f.post(&token, &format!("/api/v1/runs/{}/cancel", first(&again)), "")
        .await
        .json();
}

#[tokio::test]
async fn parameters_are_data_and_wrong_ones_are_refused_with_a_reason() {
    let f = Fixture::new().await;
    let token = f.token("ci", "submitter", "1h");
    let path = "/api/v1/jobs/done/runs";
    let good = f
        .post(&token, path, r#"{"params": {"since": "10m"}}"#)
        .await
        .json();
    assert_eq!(good["cli"], "farmhand job run done -p since=10m");
    for (body, status) in [
        (r#"{"params": {"since": "; rm -rf /"}}"#, 400),
        (r#"{"params": {"until": "10m"}}"#, 400),
        (r#"{"params": []}"#, 400),
        (r#"{"parameters": {}}"#, 400),
        (r#"{"overlap": "maybe"}"#, 400),
        ("{", 400),
        (r#"{"params": {"since": "\u0000"}}"#, 400),
    ] {
        let reply = f.post(&token, path, body).await;
        reply.problem(status);
    }
    f.post(&token, "/api/v1/jobs/nope/runs", "").await.problem(404);
    let bearer = format!("Bearer {token}");
    let text = [("Authorization", bearer.as_str()), ("Content-Type", "text/plain")];
    send(f.port, "POST", path, &text, "{}").await.problem(415);
}

#[tokio::test]
async fn jobs_nodes_pools_and_leases_obey_and_say_who_it_was() {
    let f = Fixture::new().await;
    let token = f.token("root", "admin", "1h");
    let who = "api:root@127.0.0.1";
    let mut expect = Vec::new();
    let (reason, deadline) = (r#"{"reason": "a test"}"#, r#"{"deadline": "10m"}"#);
    for (path, body, kind, word) in [
        ("/api/v1/jobs/daily/pause", reason, "job_paused", "nothing fires"),
        ("/api/v1/jobs/daily/resume", "", "job_resumed", "next run"),
        (
            "/api/v1/nodes/n1/cordon",
            "",
            "node_cordon",
            "claims nothing more",
        ),
        (
            "/api/v1/nodes/n1/drain",
            deadline,
            "node_drain",
            "claims nothing more",
        ),
        ("/api/v1/nodes/n1/resume", "", "node_resume", "claims again"),
    ] {
        let preview = format!("{path}?preview=true");
        let preview = f.post(&token, &preview, body).await.json();
        let done = f.post(&token, path, body).await.json();
        assert_eq!(preview["what"], done["what"], "{path}");
        assert!(done["what"].as_str().is_some_and(|w| w.contains(word)), "{done}");
        expect.push(kind);
    }
    for kind in expect {
        assert_eq!(by(&f, kind).await, who, "{kind}");
    }
    let sized = f
        .call("PUT", &token, "/api/v1/pools/few/size", r#"{"size": 3}"#)
        .await
        .json();
    assert_eq!(sized["cli"], "farmhand pool set few 3");
    assert_eq!(by(&f, "pool_resized").await, who);
    for (path, body) in [
        ("/api/v1/pools/none/size", r#"{"size": 3}"#),
        ("/api/v1/pools/few/size", r#"{"size": 4000000}"#),
    ] {
        let reply = f.call("PUT", &token, path, body).await;
        assert!([400, 404].contains(&reply.status), "{reply:?}");
    }
    let fill = r#"{"from": "2026-01-01", "to": "2026-01-04"}"#;
    let plan = f
        .post(&token, "/api/v1/jobs/daily/backfill?preview=true", fill)
        .await
        .json();
    assert!(
        plan["what"].as_str().is_some_and(|w| w.contains("3 runs")),
        "{plan}"
    );
    let made = f.post(&token, "/api/v1/jobs/daily/backfill", fill).await.json();
    assert_eq!(made["runs"].as_array().map(Vec::len), Some(3), "{made}");

    let release = "/api/v1/leases/n1/release";
    let refused = f.post(&token, release, "{}").await.problem(409);
    assert!(refused["hint"].is_string(), "{refused}");
    let preview = f
        .post(&token, &format!("{release}?preview=true"), "{}")
        .await
        .json();
    assert!(preview["twice"].is_string(), "{preview}");
    f.post(&token, release, r#"{"confirm": "n1"}"#).await.json();
    assert_eq!(by(&f, "lease_released").await, who);
    f.post(&token, "/api/v1/nodes/nope/cordon", "").await.problem(404);
}

#[tokio::test]
async fn a_form_that_is_sent_twice_is_answered_with_the_first_run() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    let bearer = format!("Bearer {token}");
    let form = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    for _ in 0..2 {
        let reply = send(f.port, "POST", "/act/run", &form, "job=long&key=monday").await;
        assert_eq!(reply.status, 303, "{reply:?}");
    }
    // Beside the first one only to whom says so: the question comes again, with the box for it.
    let asked = send(f.port, "POST", "/act/run", &form, "job=long&overlap=allow").await;
    assert!(
        asked.status == 409 && asked.body.contains("name=\"sure\""),
        "{asked:?}"
    );
    let made = f.farm.value::<i64>("SELECT count(*) FROM farmhand.run").await;
    assert_eq!(made, 1);
    f.post(&token, "/api/v1/runs/cancel", r#"{"job": "long"}"#)
        .await
        .json();
}
