//! The jobs of docs/guides/recipes.md, as they stand there: how they fail, and that nothing of them outlives its node.

use farmhand_tests::farm::{Farm, SOON, TAKEOVER};
use farmhand_tests::guides::blocks_of;
use farmhand_tests::outside::{Answer, Hook};

/// The only job file of the guide that has this in it, once its retries are taken out.
fn recipe(part: &str) -> String {
    let all = blocks_of("recipes.md", "toml").into_iter();
    let found: Vec<String> = all.filter(|text| text.contains(part)).collect();
    assert_eq!(found.len(), 1, "{part}");
    found[0]
        .lines()
        .filter(|line| !line.starts_with("retry"))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_by_curl_fails_with_the_answer_and_ends_with_its_node() {
    let hook = Hook::start().await;
    let jobs = recipe("fail-with-body").replace("https://billing.example.com/close", &hook.url("/close"));
    let mut farm = Farm::new().agents(2).jobs(&jobs).start().await;
    hook.answer(Answer::Status(500));
    let run = farm.submit("close-month").await;
    let failed = farm.over(run, SOON).await;
    assert_eq!(
        (failed.state.as_str(), failed.exit_code),
        ("failed", Some(22)),
        "{failed:?}"
    );

    hook.answer(Answer::Silence);
    let run = farm.submit("close-month").await;
    let asked = async || match hook.calls().len() {
        1 => Err("not asked yet".to_owned()),
        _ => Ok(()),
    };
    farm.eventually("curl asks", SOON, asked).await;
    let home = farm.run(run).await.running_at.unwrap();
    let before = farm.processes_of_run(run);
    assert!(!before.is_empty());
    hook.answer(Answer::Status(200));
    farm.agent(&home).kill_with_wardens();
    farm.eventually("curl is gone", TAKEOVER, async || {
        let left: Vec<i32> = farm
            .processes_of_run(run)
            .iter()
            .map(|process| process.pid)
            .collect();
        let old = before
            .iter()
            .filter(|process| left.contains(&process.pid))
            .count();
        (old == 0).then_some(()).ok_or_else(|| format!("{old} left"))
    })
    .await;
    let done = farm.over(run, SOON).await;
    assert_eq!((done.state.as_str(), done.attempt), ("succeeded", 2), "{done:?}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_by_psql_stops_at_an_error_and_its_statement_ends_with_its_node() {
    let mut farm = Farm::new().agents(2).start().await;
    let jobs = recipe("ON_ERROR_STOP")
        .replace("/srv/reports", &farm.dir().display().to_string())
        .replace("service=reports", &farm.database.url());
    let script = farm.dir().join("nightly.sql");
    std::fs::write(&script, "SELECT 1/0;\nSELECT 'went on';\n").unwrap();
    farm.apply(&jobs);
    let run = farm.submit("nightly-report").await;
    let failed = farm.over(run, SOON).await;
    assert_eq!(
        (failed.state.as_str(), failed.exit_code),
        ("failed", Some(3)),
        "{failed:?}"
    );
    assert!(!farm.output(run, 1).await.contains("went on"));

    std::fs::write(&script, "SELECT pg_sleep(600) /* the report */;\n").unwrap();
    let run = farm.submit("nightly-report").await;
    reports(&farm, 1).await;
    let home = farm.run(run).await.running_at.unwrap();
    std::fs::write(&script, "SELECT 'done';\n").unwrap();
    farm.agent(&home).kill_with_wardens();
    reports(&farm, 0).await;
    let done = farm.over(run, SOON).await;
    assert_eq!((done.state.as_str(), done.attempt), ("succeeded", 2), "{done:?}");
    farm.check().await;
}

/// Waits until the server executes so many of the report's statements.
async fn reports(farm: &Farm, wanted: i64) {
    let statements = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%the report%' AND pid <> pg_backend_pid() AND state = 'active'";
    farm.becomes(SOON, statements, wanted).await;
}
