//! The protocol through PgBouncer in transaction mode: no statement may lean on a session.

use farmhand_core::lease::MarksBelow;
use farmhand_store::protocol::{
    Expired, FinishResult, NodeReport, Renewed, claim, expire, finish, fire, jobs_since, open, poll, renew,
};
use farmhand_store::{Db, DbConfig, LeaseIdentity};
use farmhand_tests::outside::Pooler;
use farmhand_tests::pg::{Client, config, connect};
use serde_json::json;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};
use uuid::Uuid;

use crate::fixture::{Farm, TTL, firing, info, past, spec, success};

/// What a session of the server knows under a name.
const KNOWN: &str = "SELECT name, statement, generic_plans, custom_plans FROM pg_prepared_statements";
const ONE: (&str, &str) = ("default_pool_size", "1");

struct Behind {
    pooler: Pooler,
    url: String,
}

impl Behind {
    async fn new(farm: &Farm, settings: &[(&str, &str)]) -> Self {
        let pooler = Pooler::start(([127, 0, 0, 1], farm.test.port()).into(), settings);
        let name = farm.text("SELECT current_database()::text").await.unwrap();
        let url = pooler.url(&name);
        Self { pooler, url }
    }

    fn config(&self) -> DbConfig {
        config(&self.url).with_listen(false)
    }

    /// A client of the pooler that prepares nothing.
    async fn client(&self) -> Client {
        connect(&self.url).await
    }

    /// What the only process of the server knows.
    async fn known(&self) -> Vec<SimpleQueryRow> {
        known(&self.client().await).await
    }
}

async fn known(client: &Client) -> Vec<SimpleQueryRow> {
    let reply = client.simple_query(KNOWN).await.unwrap().into_iter();
    reply
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })
        .collect()
}

/// How often the statement of a renewal was executed with a plan that is kept, and with one of its own.
fn renewals(known: &[SimpleQueryRow]) -> Option<(&str, &str)> {
    let sql = include_str!("../../common/store/src/sql/renew.sql");
    let row = known.iter().find(|row| row.get("statement") == Some(sql))?;
    Some((row.get("generic_plans")?, row.get("custom_plans")?))
}

async fn renewed(db: &Db, me: &LeaseIdentity) {
    let renewed = renew(db, me, TTL, &NodeReport::default()).await.unwrap();
    assert!(matches!(renewed, Renewed::Alive { .. }));
}

#[tokio::test]
async fn frequent_statements_are_prepared_where_the_pooler_keeps_them() {
    let keeps = Pooler::keeps_statements();
    let mut kinds = vec![(vec![ONE], keeps)];
    if keeps {
        kinds.push((vec![ONE, ("max_prepared_statements", "0")], false));
    }
    for (settings, keeps) in kinds {
        let farm = Farm::new().await;
        let me = farm.node("a").await;
        farm.due_runs("j", 2).await;
        let behind = Behind::new(&farm, &settings).await;
        // Two agents, whose names for it differ.
        for _ in 0..2 {
            let db = Db::connect(&behind.config()).await.unwrap();
            assert_eq!(claim(&db, &me, 1, None).await.unwrap().len(), 1);
            renewed(&db, &me).await;
            renewed(&db, &me).await;
        }
        let known = behind.known().await;
        if keeps {
            assert_eq!(renewals(&known), Some(("4", "0")), "{known:?}");
        } else {
            assert!(known.is_empty(), "{known:?}");
        }
    }
}

/// Whatever names there are on the server, of whomever.
#[tokio::test]
async fn agents_that_find_out_at_once_disturb_nobody() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let behind = Behind::new(&farm, &[("default_pool_size", "2")]).await;
    let all_at_once = async || {
        let agents = (0..20).map(|_| {
            let (db, me) = (Db::new(&behind.config()), me.clone());
            tokio::spawn(async move { renewed(&db, &me).await })
        });
        for agent in agents.collect::<Vec<_>>() {
            agent.await.unwrap();
        }
    };
    // Both processes of the server, each held by a transaction.
    let held = async || {
        let both = [behind.client().await, behind.client().await];
        for client in &both {
            client.exec("BEGIN").await;
        }
        both
    };
    all_at_once().await;
    let prepare = "DO $$ BEGIN
        FOR n IN 0..1999 LOOP EXECUTE format('PREPARE s%s AS SELECT 1', n); END LOOP;
    END $$; COMMIT";
    let both = held().await;
    for client in &both {
        let known = known(client).await;
        assert!(Pooler::keeps_statements() || known.is_empty(), "{known:?}");
        client.exec(prepare).await;
    }
    all_at_once().await;
    for client in &held().await {
        let known = known(client).await;
        let theirs = known
            .iter()
            .filter(|row| row.get("statement").unwrap().starts_with("PREPARE"));
        assert_eq!(theirs.count(), 2000);
        assert!(
            Pooler::keeps_statements() || known.len() == 2000,
            "{}",
            known.len()
        );
    }
}

#[tokio::test]
async fn a_restart_of_the_pooler_is_an_outage_after_which_statements_are_prepared_again() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let mut behind = Behind::new(&farm, &[ONE]).await;
    let db = Db::connect(&behind.config()).await.unwrap();
    renewed(&db, &me).await;
    behind.pooler.restart();
    // Unless the end of its connection was noticed before.
    if let Err(error) = renew(&db, &me, TTL, &NodeReport::default()).await {
        assert!(error.is_away(), "{error}");
    }
    renewed(&db, &me).await;
    let known = behind.known().await;
    assert_eq!(
        renewals(&known).is_some(),
        Pooler::keeps_statements(),
        "{known:?}"
    );
}

/// Somebody takes the statements from the server's process, and the pooler does not know.
#[tokio::test]
async fn a_prepared_statement_that_is_gone_is_an_outage_and_nothing_is_prepared_any_more() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let behind = Behind::new(&farm, &[ONE]).await;
    let db = Db::connect(&behind.config()).await.unwrap();
    renewed(&db, &me).await;
    let gone = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$";
    behind.client().await.exec(gone).await;
    let next = renew(&db, &me, TTL, &NodeReport::default()).await;
    if Pooler::keeps_statements() {
        let error = next.unwrap_err();
        assert!(error.is_away(), "{error}");
    } else {
        next.unwrap();
    }
    renewed(&db, &me).await;
    renewed(&db, &me).await;
    let known = behind.known().await;
    assert!(known.is_empty(), "{known:?}");
}

#[tokio::test]
async fn the_protocol_works_behind_a_transaction_pooler() {
    let farm = Farm::new().await;
    let behind = Behind::new(&farm, &[("default_pool_size", "2")]).await;
    let config = behind.config();
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
                    renew(&db, &me, TTL, &NodeReport::default()).await.unwrap(),
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
