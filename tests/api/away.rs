//! The database away: what an agent says of itself to whoever sends it work.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON};

use super::client::send;

async fn answers(farm: &Farm, what: &str, status: u16, word: &str, bound: Duration) {
    farm.eventually(what, bound, async || match farm.agents[0].get("/readyz").await {
        Some((got, text)) if got == status && text.contains(word) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_not_ready_while_its_database_is_away_and_is_again_after() {
    let farm = Farm::new().proxied().start().await;
    answers(&farm, "it is ready", 200, "ready", SOON).await;
    farm.agents[0].proxy().cut();
    let short = Duration::from_secs(15);
    answers(
        &farm,
        "it says why it is not",
        503,
        "the database does not answer",
        short,
    )
    .await;
    farm.agents[0].proxy().heal();
    answers(&farm, "it is ready again", 200, "ready", SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_that_ask_for_a_token_say_that_the_database_is_away() {
    let farm = Farm::new()
        .ttl(CALM)
        .proxied()
        .arguments(&["--metrics-token", "on"])
        .start()
        .await;
    let made = |name: &str| {
        let token = farm.ok(&["token", "create", name, "--role", "viewer", "--expires", "1h"]);
        format!("Bearer {}", token.trim())
    };
    let (good, revoked, strange) = (made("good"), made("revoked"), made("strange"));
    let port = farm.agents[0].port;
    let get =
        async |bearer: &str, path: &str| send(port, "GET", path, &[("Authorization", bearer)], "").await;
    let is = async |what: &str, bearer: &str, path: &str, status: u16, word: &str| {
        farm.eventually(what, SOON, async || {
            let reply = get(bearer, path).await;
            match reply.status == status && reply.body.contains(word) {
                true => Ok(()),
                false => Err(format!("{reply:?}")),
            }
        })
        .await;
    };
    is("it scrapes", &good, "/metrics", 200, "farmhand_db_up 1").await;
    is("both do", &revoked, "/metrics", 200, "farmhand_db_up 1").await;
    farm.ok(&["token", "revoke", "revoked"]);
    is("one is refused", &revoked, "/metrics", 401, "").await;
    farm.agents[0].proxy().cut();
    is("it is told", &good, "/metrics", 200, "farmhand_db_up 0").await;
    // Neither one that was refused before, nor one that nobody has shown, nor for anything else.
    assert_eq!(get(&revoked, "/metrics").await.status, 503);
    assert_eq!(get(&strange, "/metrics").await.status, 503);
    let meanwhile = "running jobs go on until the lease of their node ends";
    is("nothing else is", &good, "/api/v1/me", 503, meanwhile).await;
}
