//! Statements that are prepared: on which connections, and that a plan made for empty tables is good for full ones.

use farmhand_common::store::protocol::{claim, finish, look, open, renew};
use farmhand_common::store::{Me, protocol::Opened};
use farmhand_tests::pg::{Options, PrivateServer};
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{TTL, info, success};

async fn server() -> PrivateServer {
    let settings = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_analyze", "on"),
        ("autovacuum", "off"),
    ];
    PrivateServer::start(Options {
        settings: settings.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
        ..Options::default()
    })
    .await
}

fn log(server: &PrivateServer) -> String {
    std::fs::read_to_string(server.data().join("../log")).unwrap()
}

#[tokio::test]
async fn a_plan_made_while_nothing_was_due_does_not_read_whole_tables_when_much_is() {
    let server = server().await;
    let (db, sql) = (server.db().await, server.client().await);
    let life = Uuid::new_v4();
    let Opened::Session(session) = open(&db, &info("a", life, json!({}))).await.unwrap() else {
        panic!("a free address")
    };
    let me = Me {
        address: "a".to_owned(),
        session,
        life,
    };
    assert_eq!(claim(&db, &me, 8, None).await.unwrap(), vec![]);
    sql.batch_execute(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
         SELECT 'j' || i % 100, 1, 'submitted', now(), now() FROM generate_series(1, 5) i",
    )
    .await
    .unwrap();
    let few = claim(&db, &me, 8, None).await.unwrap();
    let ends: Vec<_> = few.iter().map(|run| success(&me, run)).collect();
    assert_eq!(finish(&db, &ends).await.unwrap().len(), 5);
    // As many that wait, and that others hold; nothing analyses the tables.
    sql.batch_execute(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at)
         SELECT 'j' || i % 100, 1, 'submitted', now(), now() FROM generate_series(1, 20000) i;
         INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, state, running_at, session, attempt, fence,
             claimed_at)
         SELECT 'j', 1, 'submitted', now(), now(), 'running', 'z', 1, 1, i, now() FROM generate_series(1, 20000) i",
    )
    .await
    .unwrap();
    let before = log(&server).len();
    let claimed = claim(&db, &me, 300, None).await.unwrap();
    assert_eq!(claimed.len(), 300);
    renew(&db, &me, TTL, None).await.unwrap();
    look(&db, &me, 3).await.unwrap();
    let ends: Vec<_> = claimed.iter().map(|run| success(&me, run)).collect();
    assert_eq!(finish(&db, &ends).await.unwrap().len(), 300);
    let text = log(&server);
    let plans = &text[before..];
    assert!(plans.contains("run_live_claim"), "{plans}");
    assert!(!plans.contains("Seq Scan on run_live"), "{plans}");
    assert!(!plans.contains("JIT:"), "{plans}");
    // Nor whole indexes, nor the others' rows once for each of the own.
    let removed = plans
        .lines()
        .filter_map(|line| line.split_once("Rows Removed by "));
    for (_, rest) in removed {
        let count = rest.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
        assert!(count.is_some_and(|n| n < 1_000), "{rest}\n{plans}");
    }
}

#[tokio::test]
async fn a_claim_names_its_statement_on_a_connection_of_its_own() {
    let server = PrivateServer::start(Options {
        settings: vec![("log_min_duration_statement".to_owned(), "0".to_owned())],
        ..Options::default()
    })
    .await;
    let db = server.db().await;
    let me = Me {
        address: "a".to_owned(),
        session: 1,
        life: Uuid::new_v4(),
    };
    for _ in 0..2 {
        claim(&db, &me, 8, None).await.unwrap();
    }
    let text = log(&server);
    let claims: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("execute ") && line.contains("-- me:"))
        .collect();
    assert_eq!(claims.len(), 2, "{text}");
    assert!(claims.iter().all(|line| line.contains("execute s")), "{claims:?}");
}
