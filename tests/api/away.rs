//! The database away: what an agent says of itself to whoever sends it work.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};

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
