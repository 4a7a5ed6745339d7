//! The audit: what gets into it, and that nobody takes anything out.

use farmhand_tests::pg::{TestDb, connect};
use tokio_postgres::error::SqlState;

const KINDS: &str = "SELECT string_agg(kind, ' ' ORDER BY audit_id) FROM farmhand.audit";

#[tokio::test]
async fn refusals_and_actions_are_in_the_audit_and_nothing_else_is() {
    let test = TestDb::new().await;
    let sql = test.client().await;
    for (kind, detail) in [
        ("run_started", "{}"),
        ("user_refused", "{}"),
        ("definition_refused", "{}"),
        ("http_refused", r#"{"reason": "no_token"}"#),
        ("token_created", "{}"),
        ("job_paused", r#"{"by": "anna"}"#),
    ] {
        let row = format!(
            "INSERT INTO farmhand.event (at, kind, severity, detail) VALUES (now(), '{kind}', 'info', '{detail}')"
        );
        sql.exec(&row).await;
    }
    let kinds: String = sql.value(KINDS).await;
    assert_eq!(
        kinds,
        "user_refused definition_refused http_refused token_created job_paused"
    );
}

#[tokio::test]
async fn nobody_changes_empties_or_shortens_the_audit() {
    let test = TestDb::new().await;
    let sql = test.client().await;
    let row = "INSERT INTO farmhand.event (at, kind, severity, detail) VALUES (now(), 'job_paused', 'info', '{\"by\": \"anna\"}')";
    sql.exec(row).await;
    for role in [
        "farm_agent",
        "farm_operator",
        "farm_viewer",
        "farm_submitter",
        "the owner",
    ] {
        // The owner, too: by the rule rather than by a right.
        let client = match role {
            "the owner" => test.client().await,
            role => connect(&test.url_as(role)).await,
        };
        for statement in [
            "UPDATE farmhand.audit SET actor = 'bob'",
            "DELETE FROM farmhand.audit",
            "TRUNCATE farmhand.audit",
        ] {
            let refused = client.batch_execute(statement).await.expect_err(statement);
            assert_eq!(
                refused.code(),
                Some(&SqlState::INSUFFICIENT_PRIVILEGE),
                "{role}: {statement}"
            );
        }
    }
    let kinds: String = sql.value(KINDS).await;
    assert_eq!(kinds, "job_paused");
}
