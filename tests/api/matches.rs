//! Output that is searched.

use serde_json::{Value, json};

use super::fixture::Fixture;

const NOISY: &str = r#"
[job.noisy]
command = '''printf 'one\n\033[31mERROR\033[0m 1234 <b>\nlast ERROR 5\n' '''
"#;

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_a_run_and_of_a_jobs_last_runs_are_found() {
    let f = Fixture::new().await;
    f.farm.apply(NOISY);
    let token = f.token("look", "viewer", "1h");
    let mut runs = Vec::new();
    for _ in 0..2 {
        let run = f.farm.submit("noisy").await;
        f.farm.over(run, farmhand_tests::farm::SOON).await;
        runs.push(run);
    }
    let find = async |path: String| f.get(&token, &path).await.json();
    let found = find(format!("/api/v1/runs/{}/log/matches?q=ERROR%201234", runs[0])).await;
    let line = json!({"run_id": runs[0], "attempt": 1, "line": 2, "text": "ERROR 1234 <b>"});
    assert_eq!(found["items"], json!([line]), "{found}");
    assert_eq!(
        (&found["cut"], &found["before"], &found["not_kept"]),
        (&Value::Null, &Value::Null, &json!(0))
    );

    let all = find("/api/v1/jobs/noisy/log/matches?q=error&ignore_case=true&runs=10".to_owned()).await;
    let lines: Vec<_> = (all["items"].as_array().unwrap().iter())
        .map(|m| (m["run_id"].as_i64().unwrap(), m["line"].as_i64().unwrap()))
        .collect();
    assert_eq!(
        lines,
        [(runs[1], 2), (runs[1], 3), (runs[0], 2), (runs[0], 3)],
        "{all}"
    );
    assert_eq!(all["runs"], 2);
    let newest = find("/api/v1/jobs/noisy/log/matches?q=ERROR&runs=1".to_owned()).await;
    assert_eq!(
        (newest["items"].as_array().unwrap().len(), &newest["before"]),
        (2, &json!(runs[1]))
    );
    let older = find(format!(
        "/api/v1/jobs/noisy/log/matches?q=ERROR&before={}",
        runs[1]
    ))
    .await;
    assert_eq!(
        (older["items"].as_array().unwrap().len(), &older["before"]),
        (2, &Value::Null)
    );
    let few = find("/api/v1/jobs/noisy/log/matches?q=ERROR&limit=1".to_owned()).await;
    assert_eq!(
        (few["items"].as_array().unwrap().len(), &few["cut"]),
        (1, &json!("matches"))
    );

    for path in [
        "/api/v1/jobs/noisy/log/matches",
        "/api/v1/jobs/noisy/log/matches?q=",
        "/api/v1/jobs/noisy/log/matches?q=a%0Ab",
        "/api/v1/jobs/noisy/log/matches?q=a&runs=1001",
        "/api/v1/jobs/noisy/log/matches?q=a&limit=0",
        "/api/v1/runs/1/log/matches?q=a&colour=red",
    ] {
        f.get(&token, path).await.problem(400);
    }
    f.get(&token, "/api/v1/runs/999999/log/matches?q=a")
        .await
        .problem(404);
    f.get(&token, "/api/v1/jobs/nothing/log/matches?q=a")
        .await
        .problem(404);
    let none = find("/api/v1/jobs/daily/log/matches?q=a".to_owned()).await;
    assert_eq!((&none["runs"], &none["items"]), (&json!(0), &json!([])));
}
