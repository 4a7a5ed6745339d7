//! The audit: an action and its row are one transaction, and nobody takes a row out.

use farmhand_control::actions::{Cancel, Cordon, Drain, Pause, Release, Resume, Retry, Submit, Uncordon};
use farmhand_control::{Action, By, Token, perform};
use farmhand_core::definition::Overlap;
use farmhand_store::Role;
use farmhand_store::tokens::{create_token, revoke_token};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::connect;
use serde_json::Map;
use std::time::Duration;
use tokio_postgres::error::SqlState;

use crate::fixture::{Farm, spec};

/// A token of ann, an administrator.
async fn token(farm: &Farm) -> Token {
    let valid = Duration::from_secs(3_600);
    let hash = [7; 32];
    let may = (Role::Admin, &[][..]);
    let row = create_token(&anna(&farm.owner), "ann", may, &hash, valid, "anna").await;
    let row = row.unwrap().expect("a token");
    Token {
        token_id: row.token_id,
        name: row.name,
        role: row.role,
        jobs: row.jobs,
    }
}

fn actions(run: i64) -> Vec<Action> {
    let (job, node) = (|| "j".to_owned(), || "a".to_owned());
    let submit = Action::from(Submit {
        job: job(),
        params: Map::new(),
        overlap: Overlap::Allow,
    });
    vec![
        submit,
        Action::from(Pause {
            job: job(),
            reason: None,
        }),
        Action::from(Resume { job: job() }),
        Action::from(Cordon { node: node() }),
        Action::from(Drain {
            node: node(),
            deadline: None,
        }),
        Action::from(Uncordon { node: node() }),
        Action::from(Cancel { run, firing: false }),
        Action::from(Release {
            node: node(),
            session: None,
            confirm: Some(node()),
        }),
        Action::from(Retry {
            run,
            from_failed: false,
        }),
    ]
}

#[tokio::test]
async fn each_action_leaves_one_row_and_a_preview_or_a_revoked_token_none() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await.run_id;
    let token = token(&farm).await;
    let rows = "SELECT count(*) FROM farmhand.audit";
    let by = By {
        who: "api:ann@127.0.0.1",
        token: Some(&token),
        once: None,
    };
    for action in actions(run) {
        let before = farm.i64(rows).await;
        let preview = perform(&farm.owner, &action, by, false).await;
        assert_eq!(farm.i64(rows).await, before, "{action:?}");
        let answer = perform(&farm.owner, &action, by, true).await;
        assert_eq!(
            preview.is_ok(),
            answer.is_ok(),
            "{action:?}: {preview:?} {answer:?}"
        );
        let made = i64::from(answer.is_ok());
        assert_eq!(farm.i64(rows).await, before + made, "{action:?}: {answer:?}");
        if made == 1 {
            let last = "SELECT concat_ws('|', actor, token_id, action, what) FROM farmhand.audit ORDER BY audit_id DESC LIMIT 1";
            let wanted = format!("{}|{}|{}|{}", by.who, token.token_id, action.word(), action.cli());
            assert_eq!(farm.text(last).await, Some(wanted));
        }
    }
    revoke_token(&anna(&farm.owner), "ann", "anna").await.unwrap();
    let before = farm.i64(rows).await;
    let refused = perform(
        &farm.owner,
        &Action::from(Pause {
            job: "j".to_owned(),
            reason: None,
        }),
        by,
        true,
    )
    .await;
    assert!(refused.unwrap_err().what.contains("not good any more"));
    assert_eq!(farm.i64(rows).await, before);
    assert_eq!(
        farm.text("SELECT paused::text FROM farmhand.job")
            .await
            .as_deref(),
        Some("false")
    );
}

#[tokio::test]
async fn nobody_changes_empties_or_shortens_the_audit() {
    let farm = Farm::new().await;
    token(&farm).await;
    for role in ["farm_agent", "farm_operator", "farm_viewer", "farm_submitter"] {
        let client = connect(&farm.test.url_as(role)).await;
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
    let written = "SELECT concat_ws('|', login, actor, action, what) FROM farmhand.audit";
    let wanted = "farm|anna|test|farmhand test";
    assert_eq!(farm.text(written).await.as_deref(), Some(wanted));
}
