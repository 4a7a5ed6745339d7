//! Environments by prefix over the API, and the tokens that may change them.

use serde_json::{Value, json};

use super::definitions::{PATH, PREVIEW, job, jobs, of, pruning, steps, with_keys, with_login};

fn staging(text: &str) -> Value {
    let mut body = of("ops/jobs", text);
    body["prefix"] = json!("staging-");
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_an_environment_applies_with_its_prefix_alone() {
    let f = with_login().await;
    let admin = f.token("ci", "admin", "1h");
    let create = [
        "token",
        "create",
        "ci-staging",
        "--role",
        "admin",
        "--jobs",
        "staging-*",
    ];
    let token = f.farm.ok(&create).trim().to_owned();
    let text = job("a", "1") + &job("b", "1") + "triggered_by = 'a'\n";
    for path in [PREVIEW, PATH] {
        let problem = f
            .post(&token, path, &of("ops/jobs", &text).to_string())
            .await
            .problem(403);
        let title = problem["title"].as_str().unwrap();
        assert!(title.ends_with("job a is not among them"), "{title}");
    }
    assert!(jobs(&f).await.is_empty());
    let done = f.post(&token, PATH, &staging(&text).to_string()).await.json();
    assert_eq!(steps(&done), ["created staging-a", "created staging-b"]);
    f.post(&admin, PATH, &of("ops/jobs", &text).to_string())
        .await
        .json();
    assert_eq!(jobs(&f).await, ["a", "b", "staging-a", "staging-b"]);
    let run = f.farm.submit("staging-a").await;
    f.farm.succeeds(run).await;
    let triggered = f.farm.first_run("staging-b").await;
    f.farm.succeeds(triggered.run_id).await;
    assert!(
        f.farm.runs("b").await.is_empty(),
        "production's job does not follow"
    );

    // Not even with production's files does it delete anything there.
    let fewer = job("a", "1");
    let pruned = f.post(&token, PATH, &pruning(staging(&fewer))).await.json();
    assert_eq!(steps(&pruned), ["unchanged staging-a", "deleted staging-b"]);
    let kept = f
        .post(&token, PATH, &pruning(of("ops/jobs", &fewer)))
        .await
        .json();
    assert_eq!(steps(&kept), ["unchanged a"]);
    assert_eq!(jobs(&f).await, ["a", "b", "staging-a"]);

    let mut wrong = staging(&fewer);
    wrong["prefix"] = json!("staging:");
    let problem = f.post(&admin, PREVIEW, &wrong.to_string()).await.problem(400);
    let what = problem["detail"].as_str().unwrap();
    assert!(
        what.starts_with("prefix: no name can begin with the prefix `staging:`"),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_execute_what_was_signed_with_its_prefix() {
    let f = with_keys().await;
    let token = f.token("ci", "admin", "1h");
    let file = f.farm.dir().join("a.toml");
    std::fs::write(&file, job("a", "signed")).expect("a file");
    let key = f.farm.dir().join("alice.key").display().to_string();
    let sign = [
        "job",
        "sign",
        file.to_str().unwrap(),
        "--key",
        &key,
        "--prefix",
        "staging-",
    ];
    f.farm.ok(&sign);
    let signatures = std::fs::read_to_string(f.farm.dir().join("a.toml.sig")).expect("the signatures");
    let mut body = staging(&job("a", "signed"));
    body["files"][0]["signatures"] = json!(signatures);
    f.post(&token, PATH, &body.to_string()).await.json();
    let run = f.farm.submit("staging-a").await;
    f.farm.succeeds(run).await;
    body["prefix"] = json!("");
    let refused = f.post(&token, PATH, &body.to_string()).await.problem(409);
    assert_eq!(
        refused["title"], "job a of jobs/a.toml is not signed",
        "{refused}"
    );
    assert_eq!(jobs(&f).await, ["staging-a"]);
}
