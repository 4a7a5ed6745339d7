//! The login with which an agent changes definitions: a wrong one is found before anybody needs it.

use std::process::Command;

use farmhand_tests::bin::farmhand;
use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::pg::TestDb;
use serde_json::Value;

use super::definitions::{PATH, URL, fixture, job, jobs, of, with_login};
use super::fixture::Fixture;

const SETTING: &str = "--definitions-database-url (FARMHAND_DEFINITIONS_DATABASE_URL)";

/// What doctor says of this login, asked as the agent.
fn doctor(f: &Fixture, url: &str) -> Value {
    let out = Command::new(farmhand())
        .args(["doctor", "--json"])
        .env("FARMHAND_DATABASE_URL", f.farm.database.agent_url())
        .env("FARMHAND_STATE_DIR", f.farm.dir().join("doctor"))
        .env(URL, url)
        .output()
        .expect("doctor runs");
    let said: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let checks = said["checks"].as_array().expect("checks");
    let login = checks.iter().find(|check| check["check"] == "definitions' login");
    login.cloned().unwrap_or(Value::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_nothing_wrong_with_an_operators_login_and_says_nothing_without_one() {
    let f = with_login().await;
    let login = doctor(&f, &f.farm.database.operator_url());
    assert_eq!(login["level"], "ok", "{login}");
    assert_eq!(doctor(&f, ""), Value::Null);
    let away = "postgresql://nobody@127.0.0.1:1/farmhand";
    let login = doctor(&f, away);
    assert_eq!(login["level"], "failure", "{login}");
    assert!(!f.farm.agents[0].log().contains("no definitions can be changed"));
    let out = f.farm.farmhand(&[
        "doctor",
        "--definitions-database-url",
        "postgresql://a:secret@db/f",
    ]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        out.status.code() == Some(2) && said.contains("put the URL into FARMHAND_DEFINITIONS_DATABASE_URL"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_login_for_it_or_with_the_wrong_one_changes_nothing_and_says_why() {
    let elsewhere = TestDb::new().await;
    type Url<'a> = &'a dyn Fn(&Farm) -> String;
    let cases: [(Url<'_>, &str); 4] = [
        (&|_| String::new(), "without a database login"),
        (
            &|farm| farm.database.agent_url(),
            "the login farm_agent has the rights of farmhand_agent",
        ),
        (&|farm| farm.database.url(), "the login farm has the rights of"),
        (&|_| elsewhere.operator_url(), "it leads to another database"),
    ];
    for (url, why) in cases {
        let f = fixture(url, |_| Vec::new()).await;
        let token = f.token("ci", "admin", "1h");
        let refused = f
            .post(&token, PATH, &of("ops", &job("a", "1")).to_string())
            .await
            .problem(409);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(why), "{why}: {refused}");
        assert!(
            refused.to_string().contains("definitions-database-url"),
            "{refused}"
        );
        assert!(jobs(&f).await.is_empty());
        let url = (f.farm.agents[0].env.iter()).find_map(|(name, url)| (name == URL).then(|| url.clone()));
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            // It says so when it starts, before anybody asks.
            let warned = format!("no definitions can be changed over the API now: {SETTING}: {why}");
            f.farm
                .eventually("the warning", SOON, async || {
                    let log = f.farm.agents[0].log();
                    log.contains(&warned).then_some(()).ok_or(log)
                })
                .await;
            let login = doctor(&f, &url);
            assert_eq!(login["level"], "failure", "{login}");
            let found = login["found"].as_str().unwrap();
            assert!(found.starts_with(SETTING) && found.contains(why), "{login}");
            assert!(login["fix"].is_string() && login["impact"].is_string(), "{login}");
        }
    }
}
