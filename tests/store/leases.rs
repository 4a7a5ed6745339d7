//! Named leases: `farmhand.acquire`, `renew` and `release`.

use std::time::{Duration, Instant};

use farmhand_tests::pg::Client;
use farmhand_tests::pg::connect;
use tokio_postgres::error::SqlState;

use crate::epochs::replace;
use crate::fixture::Farm;

const TTL: Duration = Duration::from_secs(3);

async fn number(client: &Client, sql: &str) -> Option<i64> {
    let row = client.query_one(sql, &[]).await;
    row.unwrap_or_else(|e| panic!("{sql}: {e:?}")).get(0)
}

async fn is(client: &Client, sql: &str) -> bool {
    let row = client.query_one(sql, &[]).await;
    row.unwrap_or_else(|e| panic!("{sql}: {e:?}")).get(0)
}

async fn refused(client: &Client, sql: &str) -> SqlState {
    let error = client.query(sql, &[]).await.expect_err(sql);
    error.code().unwrap_or_else(|| panic!("{sql}: {error:?}")).clone()
}

const TAKE: &str = "SELECT farmhand.acquire('report', '3 s')";

#[tokio::test]
async fn a_lease_is_held_until_it_is_released_and_its_fences_grow() {
    let farm = Farm::new().await;
    let (a, b) = (farm.test.client().await, farm.test.client().await);
    let first = number(&a, TAKE).await.unwrap();
    assert_eq!(first >> 40, 1, "the epoch is in the high bits");
    let now = "SELECT farmhand.acquire('report', '3 s', wait => '0 s')";
    assert_eq!(number(&b, now).await, None);
    assert!(is(&a, &format!("SELECT farmhand.renew('report', {first})")).await);
    assert!(!is(&b, &format!("SELECT farmhand.renew('report', {})", first + 1)).await);
    assert!(!is(&b, &format!("SELECT farmhand.release('report', {})", first + 1)).await);
    let shown = farm
        .sql
        .query_one(
            "SELECT fence, login, extract(epoch FROM ttl)::int8, renewals FROM farmhand.lease_holder",
            &[],
        )
        .await
        .unwrap();
    assert_eq!((shown.get(0), shown.get(2), shown.get(3)), (first, 3_i64, 1_i64));
    assert!(is(&a, &format!("SELECT farmhand.release('report', {first})")).await);
    assert!(number(&b, now).await.unwrap() > first);
    assert!(!is(&a, &format!("SELECT farmhand.renew('report', {first})")).await);
}

/// Whoever waits has seen the heartbeat stand still for the TTL by a stopwatch of its own.
#[tokio::test]
async fn what_stands_still_is_taken_after_its_ttl_and_what_is_renewed_is_not() {
    let farm = Farm::new().await;
    let (a, b) = (farm.test.client().await, farm.test.client().await);
    let first = number(&a, TAKE).await.unwrap();
    // No clock decides: the row may say anything.
    let old = "UPDATE farmhand.lease SET renewed_at = '2000-01-01', acquired_at = '2000-01-01'";
    farm.exec(old).await;
    let renew = format!("SELECT farmhand.renew('report', {first})");
    let (taken, ()) = tokio::join!(number(&b, TAKE), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is(&a, &renew).await);
    });
    assert_eq!(taken, None, "its holder lives");
    let began = Instant::now();
    let taken = number(&b, TAKE).await.unwrap();
    assert!(taken > first && began.elapsed() >= TTL, "{:?}", began.elapsed());
    assert!(
        began.elapsed() < TTL + Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    assert!(!is(&a, &renew).await);
}

/// The holder renews after the waiter looked last and before it takes; two waiters take at once.
#[tokio::test]
async fn of_what_was_seen_only_the_same_heartbeat_is_taken_and_once() {
    let farm = Farm::new().await;
    let (a, b) = (farm.test.client().await, farm.test.client().await);
    let first = number(&a, TAKE).await.unwrap();
    let poll = "SELECT held FROM farmhand.try_acquire('report', '3 s')";
    let held = |row: tokio_postgres::Row| row.get::<_, String>(0);
    let seen = held(b.query_one(poll, &[]).await.unwrap());
    assert!(is(&a, &format!("SELECT farmhand.renew('report', {first})")).await);
    let take = |seen: &str| format!("SELECT fence FROM farmhand.try_acquire('report', '3 s', '{seen}')");
    assert_eq!(number(&b, &take(&seen)).await, None);
    let seen = held(b.query_one(poll, &[]).await.unwrap());
    let sql = take(&seen);
    let both = tokio::join!(number(&a, &sql), number(&b, &sql));
    assert_eq!(both.0.is_some() as u8 + both.1.is_some() as u8, 1, "{both:?}");
    // As on another server, which shows the same row.
    let elsewhere = format!("{} 0 1 elsewhere", both.0.or(both.1).unwrap());
    assert_eq!(number(&b, &take(&elsewhere)).await, None);
}

/// Two find the name free, and the second one's transaction goes on, as that of `acquire` does while it waits.
#[tokio::test]
async fn who_came_second_does_not_keep_the_holder_from_renewing() {
    let farm = Farm::new().await;
    let (a, b) = (farm.test.client().await, farm.test.client().await);
    let take = "SELECT fence FROM farmhand.try_acquire('report', '3 s')";
    a.exec("BEGIN; SET LOCAL lock_timeout = '1 s'").await;
    let fence = number(&a, take).await.unwrap();
    b.exec("BEGIN").await;
    let (second, ()) = tokio::join!(number(&b, take), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        a.exec("COMMIT; SET lock_timeout = '1 s'").await;
    });
    assert_eq!(second, None);
    let renew = |fence: i64| format!("SELECT farmhand.renew('report', {fence})");
    assert!(is(&a, &renew(fence)).await);
    // The same when both take what stood still.
    b.exec("COMMIT").await;
    let poll = "SELECT held FROM farmhand.try_acquire('report', '3 s')";
    let seen: String = b.value(poll).await;
    let take = format!("SELECT fence FROM farmhand.try_acquire('report', '3 s', '{seen}')");
    a.exec("BEGIN").await;
    let fence = number(&a, &take).await.unwrap();
    b.exec("BEGIN").await;
    let (second, ()) = tokio::join!(number(&b, &take), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        a.exec("COMMIT").await;
    });
    assert_eq!(second, None);
    assert!(is(&a, &renew(fence)).await);
    assert!(is(&a, &format!("SELECT farmhand.release('report', {fence})")).await);
}

#[tokio::test]
async fn while_claims_are_closed_a_holder_goes_on_and_nobody_acquires() {
    let farm = Farm::new().await;
    let a = farm.test.client().await;
    let first = number(&a, TAKE).await.unwrap();
    assert_eq!(
        farm.i64("SELECT longest_lease_ms FROM farmhand.database").await,
        3000,
        "another server is watched for as long"
    );
    replace(&farm).await;
    assert!(is(&a, &format!("SELECT farmhand.renew('report', {first})")).await);
    assert_eq!(number(&a, "SELECT farmhand.acquire('other', '3 s')").await, None);
    assert_eq!(number(&a, TAKE).await, None, "not even after its TTL");
    assert!(is(&a, &format!("SELECT farmhand.release('report', {first})")).await);
    let insert =
        "INSERT INTO farmhand.epoch (epoch, server, opened_by) VALUES (7, farmhand.server(), 'test')";
    farm.exec(insert).await;
    let next = number(&a, TAKE).await.unwrap();
    assert!(next > first && next >> 40 == 7, "{next}");
}

#[tokio::test]
async fn a_login_changes_its_own_leases_only_and_an_operator_every_ones() {
    let farm = Farm::new().await;
    let submitter = connect(&farm.test.url_as("farm_submitter")).await;
    let operator = connect(&farm.test.url_as("farm_operator")).await;
    let viewer = connect(&farm.test.url_as("farm_viewer")).await;
    let fence = number(&operator, TAKE).await.unwrap();
    assert!(!is(&submitter, &format!("SELECT farmhand.renew('report', {fence})")).await);
    assert!(!is(&submitter, &format!("SELECT farmhand.release('report', {fence})")).await);
    // It is not taken over either, neither after its TTL nor by who says that it has waited.
    assert_eq!(refused(&submitter, TAKE).await, SqlState::INSUFFICIENT_PRIVILEGE);
    for client in [&submitter, &operator, &viewer] {
        let write = "UPDATE farmhand.lease SET fence = 1";
        assert_eq!(refused(client, write).await, SqlState::INSUFFICIENT_PRIVILEGE);
    }
    assert_eq!(refused(&viewer, TAKE).await, SqlState::INSUFFICIENT_PRIVILEGE);
    let own = number(&submitter, "SELECT farmhand.acquire('shop', '3 s')")
        .await
        .unwrap();
    assert!(is(&submitter, &format!("SELECT farmhand.renew('shop', {own})")).await);
    assert!(is(&operator, &format!("SELECT farmhand.release('shop', {own})")).await);
    assert!(!is(&submitter, &format!("SELECT farmhand.renew('shop', {own})")).await);
}

#[tokio::test]
async fn what_cannot_be_a_lease_is_refused_with_what_can() {
    let farm = Farm::new().await;
    let a = farm.test.client().await;
    for sql in [
        "SELECT farmhand.acquire('', '3 s')",
        "SELECT farmhand.acquire(NULL, '3 s')",
        "SELECT farmhand.acquire(repeat('x', 201), '3 s')",
        "SELECT farmhand.acquire('x', '2 s')",
        "SELECT farmhand.acquire('x', '61 s')",
        "SELECT farmhand.acquire('x', NULL)",
        "SELECT farmhand.acquire('x', '3 s', '1 day')",
    ] {
        assert_eq!(refused(&a, sql).await, SqlState::INVALID_PARAMETER_VALUE, "{sql}");
    }
    a.exec("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(refused(&a, TAKE).await, SqlState::ACTIVE_SQL_TRANSACTION);
}
