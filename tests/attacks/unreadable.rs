//! Rows that a client could not read keep it from no other row.

use std::time::Duration;

use farmhand_store::protocol::{Closed, NodeInfo, Opened, claim, close, jobs_since, open};
use farmhand_store::reading;
use farmhand_store::{Db, LeaseIdentity};
use serde_json::json;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::logins::{Attacked, refused};

async fn opened(db: &Db) -> LeaseIdentity {
    let node = NodeInfo {
        address: "n".to_owned(),
        name: "n".to_owned(),
        incarnation: Uuid::new_v4(),
        ttl: Duration::from_secs(10),
        slots: 8,
        labels: json!({}),
        version: "1".to_owned(),
        last_session: 0,
        machine: None,
    };
    let Opened::Session(session) = open(db, &node).await.expect("a session") else {
        panic!("no session")
    };
    LeaseIdentity {
        address: node.address,
        session,
        incarnation: node.incarnation,
    }
}

#[tokio::test]
async fn a_time_that_no_client_could_read_stops_neither_claims_nor_schedules() {
    let a = Attacked::new().await;
    for statement in [
        "UPDATE farmhand.run_live SET due_at = 'infinity'",
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, params)
             VALUES ('j', 1, 'submitted', '-infinity', now(), '5'), ('j', 1, 'submitted', now(), now(), '{}')",
        "UPDATE farmhand.job SET next_run = 'infinity', decided_until = '-infinity', paused_at = '12345-01-01Z'",
    ] {
        a.operator.batch_execute(statement).await.expect(statement);
    }
    let db = a.test.agent_db().await;
    let me = opened(&db).await;
    assert_eq!(claim(&db, &me, 10, None).await.expect("runs").len(), 3);
    assert_eq!(jobs_since(&db, 0).await.expect("schedules").len(), 1);
}

#[tokio::test]
async fn a_time_that_no_client_could_read_keeps_no_session_from_ending() {
    let a = Attacked::new().await;
    for statement in [
        "UPDATE farmhand.run_live SET due_at = 'infinity'",
        "INSERT INTO farmhand.notify_edge (job_id, target) VALUES ('j', 'ops')",
    ] {
        a.operator.batch_execute(statement).await.expect(statement);
    }
    let db = a.test.agent_db().await;
    let me = opened(&db).await;
    assert_eq!(claim(&db, &me, 10, None).await.expect("runs").len(), 1);
    let closed = close(&db, &me).await.expect("it ends");
    assert!(matches!(closed, Closed::Done { freed } if freed.len() == 1));
}

/// One such row would keep agents from all others.
#[tokio::test]
async fn json_that_no_client_could_read_is_not_stored() {
    let a = Attacked::new().await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for value in [deep.as_str(), "1e999", "-1e999"] {
        let json = format!(r#"{{"a": {value}}}"#);
        for statement in [
            format!("UPDATE farmhand.run_live SET params = '{json}'"),
            format!("UPDATE farmhand.run_live SET made = jsonb_build_object('parents', '{json}'::jsonb)"),
            format!(
                "INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at)
                     VALUES ('j', 99, '{json}', 's', 'me', now())"
            ),
        ] {
            refused(&a.operator, &statement, &SqlState::CHECK_VIOLATION).await;
        }
    }
}

#[tokio::test]
async fn labels_that_no_client_could_read_keep_nobody_from_the_verdict() {
    let a = Attacked::new().await;
    let db = a.test.agent_db().await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for set in ["5", "[]", r#"{"a": 5}"#, r#"{"a": []}"#, "1e999", deep.as_str()] {
        let statement = format!("UPDATE farmhand.run_live SET placement = ARRAY['{set}'::jsonb]");
        a.operator.batch_execute(&statement).await.expect(&statement);
        let now = reading::farm(&db).await.expect(set);
        let oldest = now.oldest_due.expect("a run waits");
        assert_eq!((oldest.placement, oldest.fits), (None, false), "{set}");
    }
    let labels = r#"UPDATE farmhand.run_live SET placement = ARRAY['{"a": "b"}'::jsonb]"#;
    a.operator.batch_execute(labels).await.expect(labels);
    let now = reading::farm(&db).await.expect("the farm");
    assert!(now.oldest_due.is_some_and(|run| run.placement.is_some()));
}
