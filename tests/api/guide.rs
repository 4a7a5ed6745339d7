//! What docs/guides/gitops.md does with the API.

use farmhand_tests::farm::SOON;
use farmhand_tests::guides::{blocks, blocks_of, shell};
use serde_json::Value;

use super::definitions::{PATH, job, jobs, steps, with_login};

/// To show, to apply, to apply two environments, and to make a token and a request of one of them.
fn guide() -> [String; 4] {
    blocks("gitops.md").try_into().expect("four blocks")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_guide_preview_and_apply() {
    let [preview, apply, ..] = guide();
    let f = with_login().await;
    let token = f.token("ci", "admin", "1h");
    let here = f.farm.dir().join("repository");
    std::fs::create_dir_all(here.join("jobs/more")).expect("directories");
    std::fs::write(here.join("jobs/a.toml"), job("a", "1")).expect("a file");
    std::fs::write(here.join("jobs/more/b b.toml"), job("b", "1")).expect("a file");
    let run = |script: &str| {
        let out = shell(script, &here)
            .env("FARMHAND_API", format!("http://127.0.0.1:{}", f.port))
            .env("FARMHAND_TOKEN", &token)
            .output()
            .expect("sh");
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        (out.status.success(), said)
    };
    let (good, said) = run(&preview);
    assert!(good && said.contains("\"created\""), "{said}");
    assert!(jobs(&f).await.is_empty(), "{said}");
    let (good, said) = run(&(preview.clone() + &apply));
    assert!(good, "{said}");
    assert_eq!(jobs(&f).await, ["a", "b"]);
    let run_id = f.farm.submit("b").await;
    assert_eq!(f.farm.over(run_id, SOON).await.state, "succeeded");
    std::fs::write(here.join("jobs/a.toml"), "[job.a]\ncomand = 'x'\n").expect("a file");
    let (good, said) = run(&preview);
    assert!(!good && said.contains("unknown key `comand`"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environments_of_the_guide_have_their_own_names_sources_and_rights() {
    let [preview, _, both, token] = guide();
    let f = with_login().await;
    let here = f.farm.dir().join("repository");
    std::fs::create_dir_all(here.join("jobs")).expect("a directory");
    let [text] = blocks_of("gitops.md", "toml").try_into().expect("one job file");
    std::fs::write(here.join("jobs/stock.toml"), &text).expect("a file");
    let admin = f.token("ci", "admin", "1h");
    let run = |script: &str| {
        let out = shell(script, &here)
            .env("FARMHAND_API", format!("http://127.0.0.1:{}", f.port))
            .env("FARMHAND_TOKEN", &admin)
            .env("FARMHAND_DATABASE_URL", f.farm.database.url())
            .output()
            .expect("sh");
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{said}");
        said
    };
    run(&both);
    assert_eq!(
        jobs(&f).await,
        ["import", "report", "staging-import", "staging-report"]
    );
    let of = |job: &str| {
        format!(
            "SELECT r.source || ' ' || (r.spec->>'triggered_by') || ' ' || (r.spec->>'where')
             FROM farmhand.job JOIN farmhand.job_revision r USING (job_id, rev) WHERE job_id = '{job}'"
        )
    };
    let staging: String = f.farm.value(&of("staging-report")).await;
    assert_eq!(
        staging,
        "staging-:ops/jobs [\"staging-import\"] {\"env\": \"staging\"}"
    );
    let production: String = f.farm.value(&of("report")).await;
    assert_eq!(production, "ops/jobs [\"import\"] {\"env\": \"production\"}");

    let changed = text.replace("[job.report]", "[job.stock-report]");
    std::fs::write(here.join("jobs/stock.toml"), changed).expect("a file");
    run(&(preview + &token + "printf %s \"$FARMHAND_TOKEN\" > token\n"));
    let read = |name: &str| std::fs::read_to_string(here.join(name)).expect("a file");
    let token = read("token");
    let refused = f.post(&token, PATH, &read("request.json")).await.problem(403);
    let title = refused["title"].as_str().unwrap();
    assert!(title.ends_with("is not among them"), "{title}");
    let done: Value = f.post(&token, PATH, &read("staging.json")).await.json();
    assert_eq!(
        steps(&done),
        [
            "unchanged staging-import",
            "created staging-stock-report",
            "deleted staging-report"
        ]
    );
    assert_eq!(
        jobs(&f).await,
        ["import", "report", "staging-import", "staging-stock-report"]
    );
}
