//! The protocol through PgBouncer in transaction mode: no statement may lean on a session.

use farmhand_core::lease::MarksBelow;
use farmhand_store::protocol::{
    Expired, FinishResult, Renewed, Told, claim, expire, finish, fire, jobs_since, open, poll, renew,
};
use farmhand_store::{Db, LeaseIdentity};
use farmhand_tests::outside::Pooler;
use farmhand_tests::pg::config;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Farm, TTL, firing, info, past, spec, success};

#[tokio::test]
async fn the_protocol_works_behind_a_transaction_pooler() {
    let farm = Farm::new().await;
    let pooler = Pooler::start(farm.test.port(), 2);
    let name: String = farm
        .sql
        .query_one("SELECT current_database()", &[])
        .await
        .unwrap()
        .get(0);
    let config = config(&pooler.url(&name)).with_listen(false);
    let db = Db::connect(&config).await.unwrap();

    let at = past(60);
    for n in 0..20 {
        farm.job(&format!("j{n}"), spec(), Some(at)).await;
    }
    assert_eq!(jobs_since(&db, 0).await.unwrap().len(), 20);
    // More clients than server connections, all at once.
    let agents = (0..6).map(|n| {
        let db = Db::new(&config);
        tokio::spawn(async move {
            let (address, incarnation) = (format!("n{n}"), Uuid::new_v4());
            open(&db, &info(&address, incarnation, json!({}))).await.unwrap();
            let me = LeaseIdentity {
                address,
                session: 1,
                incarnation,
            };
            let fires: Vec<_> = (0..20).map(|n| firing(&format!("j{n}"), 1, at, &[at])).collect();
            fire(&db, &fires).await.unwrap();
            let mut done = 0;
            for _ in 0..50 {
                poll(&db, &me, &MarksBelow::default()).await.unwrap();
                assert!(matches!(
                    renew(&db, &me, TTL, &Told::default()).await.unwrap(),
                    Renewed::Alive { .. }
                ));
                let runs = claim(&db, &me, 3, None).await.unwrap();
                let ends: Vec<_> = runs.iter().map(|r| success(&me, r)).collect();
                for (_, end) in finish(&db, &ends).await.unwrap() {
                    assert_eq!(end, FinishResult::Done);
                    done += 1;
                }
                if runs.is_empty() {
                    break;
                }
            }
            done
        })
    });
    let mut done = 0;
    for agent in agents.collect::<Vec<_>>() {
        done += agent.await.unwrap();
    }
    let left = farm.i64("SELECT count(*) FROM farmhand.run_live").await;
    assert_eq!(done + left, 20);
    let row = farm
        .sql
        .query_one(
            "SELECT session, incarnation, renewals FROM farmhand.node WHERE address = 'n0'",
            &[],
        )
        .await
        .unwrap();
    let expired = expire(&db, "n0", row.get(0), row.get(1), row.get(2))
        .await
        .unwrap();
    assert_eq!(expired, Expired::Done { freed: vec![] });
}
