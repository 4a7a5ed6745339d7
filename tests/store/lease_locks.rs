//! Named leases and the locks of jobs have one namespace.

use std::time::Duration;

use farmhand_core::lease::MarksBelow;
use farmhand_store::leases::{self, Acquired};
use farmhand_store::pools::gate_facts;
use farmhand_store::protocol::{AwaitedLease, NodeReport, claim_gated, finish, poll, renew};
use farmhand_store::{Db, LeaseIdentity, Note};
use farmhand_tests::pg::Client;

use crate::epochs::replace;
use crate::fixture::{Farm, success};
use crate::gates::{gated, ids, locked, reason};

const TTL: Duration = Duration::from_secs(3);
const TAKE: &str = "SELECT fence FROM farmhand.try_acquire('tape', '3 s')";

/// A node, and a waiting run of a job with the lock "tape".
async fn waiting(farm: &Farm) -> (LeaseIdentity, i64) {
    let me = farm.node("a").await;
    farm.needy("backup", locked(&["disk", "tape"])).await;
    (me, farm.submitted("backup").await)
}

async fn awaited(farm: &Farm, me: &LeaseIdentity) -> Vec<AwaitedLease> {
    let polled = poll(&farm.db, me, &MarksBelow::default()).await.unwrap();
    polled.awaited_leases.unwrap_or_default()
}

async fn fence(client: &Client) -> Option<i64> {
    client.value(TAKE).await
}

#[tokio::test]
async fn a_run_waits_for_a_lease_and_a_lease_for_a_run() {
    let farm = Farm::new().await;
    let (me, run) = waiting(&farm).await;
    let Acquired::Granted(fence) = leases::acquire(&farm.owner, "tape", TTL, None).await.unwrap() else {
        panic!("it is free")
    };
    assert!(gated(&farm, &me, 9).await.is_empty());
    assert_eq!(reason(&farm, run).await.as_deref(), Some("lock"));
    let facts = gate_facts(&farm.db, "backup", 1, run).await.unwrap().unwrap();
    assert_eq!(facts.leases[0].name, "tape");
    let polled = poll(&farm.db, &me, &MarksBelow::default()).await.unwrap();
    assert_eq!(polled.gated_at, None, "something has to end first");

    let (keeper, mut notes) = Db::dedicated(&farm.test.config());
    renew(&keeper, &me, TTL, &NodeReport::default()).await.unwrap();
    assert_eq!(notes.recv().await, Some(Note::Reconnected { direct: true }));
    assert!(leases::release(&farm.owner, "tape", fence).await.unwrap());
    let due = Note::Due {
        run_id: run,
        job: Some("backup".to_owned()),
        runs: 1,
        node: None,
    };
    assert_eq!(notes.recv().await, Some(due), "the farm is told");
    let held = gated(&farm, &me, 9).await;
    assert_eq!(ids(&held), [run]);
    let asked = leases::acquire(&farm.owner, "tape", TTL, None).await.unwrap();
    let by_run = Acquired::Held {
        key: format!("run {run}"),
        ttl: None,
    };
    assert_eq!(asked, by_run);
    // Whatever it says it has seen.
    let asked = leases::acquire(&farm.owner, "tape", TTL, Some(&format!("run {run}")))
        .await
        .unwrap();
    assert_eq!(asked, by_run);
    for call in ["acquire('tape', '3 s')", "acquire('tape', '3 s', '0 s')"] {
        let row = farm.sql.query_one(&format!("SELECT farmhand.{call}"), &[]).await;
        assert_eq!(row.unwrap().get::<_, Option<i64>>(0), None, "{call}");
    }
    finish(&farm.db, &[success(&me, &held[0])]).await.unwrap();
    let asked = leases::acquire(&farm.owner, "tape", TTL, None).await.unwrap();
    assert!(
        matches!(asked, Acquired::Granted(later) if later > fence),
        "{asked:?}"
    );
}

/// Neither has committed when the other looks.
#[tokio::test]
async fn a_claim_and_an_acquisition_at_once_do_not_both_get_the_name() {
    let farm = Farm::new().await;
    let (me, run) = waiting(&farm).await;
    let (a, b) = (farm.test.client().await, farm.test.client().await);

    a.exec("BEGIN").await;
    let taken = fence(&a).await.unwrap();
    assert!(gated(&farm, &me, 9).await.is_empty(), "and it does not wait");
    a.exec("ROLLBACK").await;

    a.exec("BEGIN").await;
    let claim = "SELECT run_id FROM farmhand.claim_gated($1, $2, $3, 9) AS run_id";
    let won = a
        .query(claim, &[&me.address, &me.session, &me.incarnation])
        .await
        .unwrap();
    assert_eq!(won.len(), 1);
    let (second, ()) = tokio::join!(fence(&b), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        a.exec("COMMIT").await;
    });
    assert_eq!(second, None);
    assert_eq!(reason(&farm, run).await, None, "it runs");
    assert!(taken > 0);
}

/// A user's long transaction that holds one name does not delay claims that need another name.
#[tokio::test]
async fn a_name_taken_in_a_long_transaction_holds_up_no_other_claim() {
    let farm = Farm::new().await;
    let (me, _) = waiting(&farm).await;
    farm.needy("other", locked(&["drive"])).await;
    let a = farm.test.client().await;
    a.exec("BEGIN").await;
    fence(&a).await.unwrap();
    let other = farm.submitted("other").await;
    assert_eq!(ids(&gated(&farm, &me, 9).await), [other]);
}

#[tokio::test]
async fn a_lease_that_was_left_behind_is_freed_for_a_run_that_waits_and_no_other_is() {
    let farm = Farm::new().await;
    let (me, run) = waiting(&farm).await;
    let own = fence(&farm.sql).await.unwrap();
    let other = "SELECT fence FROM farmhand.try_acquire('other', '3 s')";
    farm.sql.query_one(other, &[]).await.unwrap();
    let seen = awaited(&farm, &me).await;
    assert_eq!(
        seen.iter()
            .map(|l| (l.name.as_str(), l.ttl_ms))
            .collect::<Vec<_>>(),
        [("tape", 3000)]
    );
    let renew = format!("SELECT farmhand.renew('tape', {own})");
    farm.sql.query_one(&renew, &[]).await.unwrap();
    let free = async |name: &str, seen: &str| leases::free(&farm.db, name, seen).await.unwrap();
    assert_eq!(free("tape", &seen[0].shown).await, None, "it was renewed");
    let seen = awaited(&farm, &me).await.remove(0).shown;
    assert_eq!(free("other", &seen).await, None);
    replace(&farm).await;
    assert_eq!(free("tape", &seen).await, None, "claims are closed");
    let open = "INSERT INTO farmhand.epoch (epoch, server, opened_by) VALUES (7, farmhand.server(), 'test')";
    farm.exec(open).await;
    let left = free("tape", &seen).await.expect("it stood still");
    assert!(!left.login.is_empty());
    let held = claim_gated(&farm.db, &me, 9).await.unwrap();
    assert_eq!(ids(&held), [run]);
    // No run waits any more, so no lease is watched.
    assert!(awaited(&farm, &me).await.is_empty());
    finish(&farm.db, &[success(&me, &held[0])]).await.unwrap();
    let again = fence(&farm.sql).await.unwrap();
    assert!(again > own);
    let stands = format!(
        "SELECT farmhand.shown_lease(l.fence, l.renewals) FROM farmhand.lease_holder l WHERE l.fence = {again}"
    );
    let stands = farm.text(&stands).await.unwrap();
    assert_eq!(free("tape", &stands).await, None, "no run waits for this lock");
}

/// One agent at a time turns notes into messages, in a transaction of several statements.
#[tokio::test]
async fn who_writes_messages_holds_up_no_claim() {
    let farm = Farm::new().await;
    let (me, run) = waiting(&farm).await;
    let writer = farm.test.client().await;
    writer.exec("BEGIN").await;
    let lock = include_str!("../../common/store/src/sql/notify_lock.sql");
    let free: bool = writer.query_one(lock, &[]).await.unwrap().get("free");
    assert!(free);
    let won = tokio::time::timeout(Duration::from_secs(5), gated(&farm, &me, 9)).await;
    assert_eq!(ids(&won.expect("it does not wait for the messages")), [run]);
}
