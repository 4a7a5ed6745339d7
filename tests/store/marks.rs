//! The marks of renewals: who is silent, told by one poll.

use std::collections::HashSet;
use std::time::Duration;

use farmhand_core::lease::MarksBelow;
use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{NodeInfo, NodeReport, Poll, close, poll, renew};
use serde_json::json;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::fixture::{Farm, TTL, info};

impl Farm {
    async fn below(&self, me: &LeaseIdentity, classes: &[(i64, i64)]) -> Poll {
        let (ttls, marks) = classes.iter().copied().unzip();
        poll(&self.db, me, &MarksBelow { ttls, marks }).await.unwrap()
    }

    async fn mark(&self, address: &str) -> i64 {
        self.i64(&format!(
            "SELECT mark FROM farmhand.node WHERE address = '{address}'"
        ))
        .await
    }
}

fn addresses(poll: &Poll) -> Vec<&str> {
    let mut all: Vec<&str> = poll.silent.iter().map(|n| n.address.as_str()).collect();
    all.sort_unstable();
    all
}

#[tokio::test]
async fn one_poll_shows_every_node_that_has_not_renewed_since_an_earlier_one() {
    let farm = Farm::new().await;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        nodes.push(farm.node(name).await);
    }
    close(&farm.db, &nodes[6]).await.unwrap();
    let above = farm.below(&nodes[0], &[]).await.above.unwrap();
    let all = farm.below(&nodes[0], &[(i64::MAX, above)]).await;
    assert_eq!(addresses(&all), ["b", "c", "d", "e", "f"]);
    for n in [2, 4] {
        renew(&farm.db, &nodes[n], TTL, &NodeReport::default())
            .await
            .unwrap();
    }
    let silent = farm.below(&nodes[0], &[(i64::MAX, above)]).await;
    assert_eq!(addresses(&silent), ["b", "d", "f"]);
    assert_eq!(silent.silent[0].mark, farm.mark(&silent.silent[0].address).await);
    assert!(farm.below(&nodes[0], &[]).await.silent.is_empty());
}

#[tokio::test]
async fn each_lease_has_its_own_age() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let short = NodeInfo {
        ttl: Duration::from_secs(3),
        ..info("b", Uuid::new_v4(), json!({}))
    };
    let b = farm.opens(short).await;
    let above = farm.below(&a, &[]).await;
    assert_eq!(above.shortest_ttl_ms, Some(3_000));
    let above = above.above.unwrap();
    let seen = |poll: Poll| addresses(&poll).len();
    assert_eq!(seen(farm.below(&a, &[(3_001, above), (i64::MAX, 0)]).await), 1);
    assert_eq!(seen(farm.below(&a, &[(3_000, above), (i64::MAX, 0)]).await), 0);
    assert_eq!(seen(farm.below(&a, &[(3_001, above - 1)]).await), 0);
    // Too long a lease for what has been received so far.
    assert_eq!(seen(farm.below(&b, &[(30_000, above)]).await), 0);
}

/// Its number is drawn before it waits for the row: a later one of the same session may get there first.
#[tokio::test]
async fn a_renewal_that_was_overtaken_does_not_take_the_mark_back() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let text = include_str!("../../common/store/src/sql/renew.sql");
    let types = [
        Type::TEXT,
        Type::INT8,
        Type::UUID,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::TEXT,
    ];
    let renewal = farm.sql.prepare_typed(text, &types).await.unwrap();
    farm.exec("BEGIN; SELECT pg_current_xact_id()").await;
    renew(&farm.db, &b, TTL, &NodeReport::default()).await.unwrap();
    let (mark, renewals) = (farm.mark("b").await, farm.renewals("b").await);
    let overtaken = farm
        .sql
        .query(
            &renewal,
            &[
                &b.address,
                &b.session,
                &b.incarnation,
                &30_000_i64,
                &None::<i64>,
                &0_i64,
                &None::<String>,
            ],
        )
        .await
        .unwrap();
    assert_eq!(overtaken.len(), 1);
    farm.exec("COMMIT").await;
    assert_eq!(
        (farm.mark("b").await, farm.renewals("b").await),
        (mark, renewals + 1)
    );
    assert!(
        farm.below(&a, &[(i64::MAX, mark)])
            .await
            .silent
            .iter()
            .all(|n| n.address != "b")
    );
}

/// A server that crashes gives the numbers again of which nothing was made durable.
#[tokio::test]
async fn what_others_draw_and_nobody_commits_moves_nothing() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    for _ in 0..20 {
        farm.exec("BEGIN; SELECT pg_current_xact_id(); ROLLBACK").await;
    }
    let above = farm.below(&a, &[]).await.above;
    assert_eq!(above, Some(farm.mark("b").await + 1));
    renew(&farm.db, &b, TTL, &NodeReport::default()).await.unwrap();
    assert!(farm.below(&a, &[]).await.above > above);
}

/// As after a restore into another cluster: such a node is watched by its renewals.
#[tokio::test]
async fn a_mark_that_this_server_cannot_have_given_is_always_shown_and_ends_with_the_session() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.exec("UPDATE farmhand.node SET mark = 1000000000000 WHERE address = 'b'")
        .await;
    renew(&farm.db, &b, TTL, &NodeReport::default()).await.unwrap();
    let poll = farm.below(&a, &[]).await;
    assert_eq!(addresses(&poll), ["b"]);
    assert!(poll.above.unwrap() < 1_000_000_000_000);
    close(&farm.db, &b).await.unwrap();
    farm.node("b").await;
    assert!(farm.mark("b").await < 1_000_000_000_000);
    assert!(farm.below(&a, &[]).await.silent.is_empty());
}

#[tokio::test]
async fn of_thousands_of_nodes_with_such_marks_each_is_shown_to_somebody() {
    let farm = Farm::new().await;
    let (a, m) = (farm.node("a").await, farm.node("n0700.beside").await);
    let copies = "INSERT INTO farmhand.node (address, name, session, incarnation, open, ttl_ms, lease_until, slots, labels, version,
             started_at, mark)
         SELECT at, name, session, incarnation, open, ttl_ms, lease_until, slots, jsonb_build_object('node', at), version,
             started_at, 1152921504606846976 + i
         FROM farmhand.node n, generate_series(1, 1500) i, LATERAL (SELECT 'n' || to_char(i, 'FM0000') AS at) a
         WHERE n.address = 'a'";
    farm.exec(copies).await;
    let (of_a, of_m) = (farm.below(&a, &[]).await, farm.below(&m, &[]).await);
    let seen: HashSet<&str> = addresses(&of_a).into_iter().chain(addresses(&of_m)).collect();
    assert_eq!(seen.len(), 1_500);
}
