//! A token that is restricted to some jobs.

use serde_json::json;

use super::client::send;
use super::fixture::Fixture;

#[tokio::test]
async fn a_restricted_token_acts_on_its_own_jobs_alone_and_sees_all() {
    let f = Fixture::new().await;
    let create = [
        "token", "create", "team", "--role", "operator", "--jobs", "done", "--jobs", "dai*",
    ];
    let token = f.farm.ok(&create).trim().to_owned();
    let me = f.get(&token, "/api/v1/me").await.json();
    assert_eq!(me["jobs"], json!(["done", "dai*"]), "{me}");
    let run = f.farm.submit("long").await;

    for (path, body) in [
        ("/api/v1/jobs/done/runs", ""),
        ("/api/v1/jobs/daily/pause", ""),
        ("/api/v1/jobs/daily/resume", ""),
        (
            "/api/v1/jobs/daily/backfill",
            r#"{"from": "2026-01-01", "to": "2026-01-02"}"#,
        ),
    ] {
        let reply = f.post(&token, path, body).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
    }
    let refusal = "not allowed: token team is restricted to done, dai*; job long is not among them";
    let of_run = |word: &str| format!("/api/v1/runs/{run}/{word}");
    let chosen = json!({"runs": [run]}).to_string();
    for (path, body) in [
        ("/api/v1/jobs/long/runs".to_owned(), ""),
        ("/api/v1/jobs/long/runs".to_owned(), r#"{"overlap": "replace"}"#),
        ("/api/v1/jobs/long/pause".to_owned(), ""),
        ("/api/v1/jobs/long/resume".to_owned(), ""),
        (
            "/api/v1/jobs/long/backfill".to_owned(),
            r#"{"from": "2026-01-01"}"#,
        ),
        (of_run("cancel"), ""),
        (of_run("retry"), ""),
        ("/api/v1/runs/cancel".to_owned(), &chosen),
    ] {
        for path in [path.clone(), format!("{path}?preview=true")] {
            let problem = f.post(&token, &path, body).await.problem(403);
            assert_eq!(problem["title"], refusal, "{path}");
        }
    }
    for path in ["/api/v1/nodes/n1/drain", "/api/v1/nodes/n1/cordon?preview=true"] {
        let problem = f.post(&token, path, "").await.problem(403);
        assert!(
            problem["title"].as_str().unwrap().ends_with("is beyond them"),
            "{problem}"
        );
    }
    let resize = f
        .call("PUT", &token, "/api/v1/pools/few/size", r#"{"size": 1}"#)
        .await;
    resize.problem(403);
    assert_eq!(f.recorded("restricted").await["token"], "team");
    // Of all that match, those of other jobs are left alone, and it says so.
    let all = json!({"state": ["running", "due"]}).to_string();
    let answer = f.post(&token, "/api/v1/runs/cancel", &all).await.json();
    assert!(
        answer["what"].as_str().unwrap().contains("1 run of long"),
        "{answer}"
    );
    assert!(!f.farm.run(run).await.is_over(), "{answer}");

    assert_eq!(f.get(&token, "/api/v1/jobs/long").await.status, 200);
    let cookie = f.login(&token).await;
    let headers = [("Cookie", cookie.as_str())];
    let page = send(f.port, "GET", "/jobs/long", &headers, "").await;
    assert!(page.body.contains("you are restricted to done, dai*"), "{page:?}");
    let page = send(f.port, "GET", "/jobs/done", &headers, "").await;
    assert!(!page.body.contains("you are restricted"), "{page:?}");
    let page = send(f.port, "GET", "/act/run?job=long", &headers, "").await;
    assert!(page.body.contains(refusal), "{page:?}");
    // A token that replaces it by name is another.
    f.farm.ok(&["token", "revoke", "team"]);
    let next = f.token("team", "operator", "1h");
    assert_eq!(f.post(&next, "/api/v1/jobs/long/pause", "").await.status, 200);
}
