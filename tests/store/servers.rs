//! A URL that names several servers.

use std::time::{Duration, Instant};

use farmhand_store::events::record_events;
use farmhand_store::reading::now;
use farmhand_store::{Db, StoreError};
use farmhand_tests::pg::{Options, PrivateServer, config, url_of};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::connections::{event, short};
use crate::fixture::Farm;

#[tokio::test]
async fn the_next_host_is_tried_when_the_first_is_down() {
    let farm = Farm::new().await;
    let closed = {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = format!(
        "postgresql://farm@127.0.0.1:{closed},127.0.0.1:{}/{}",
        farm.test.port(),
        farm.test.name()
    );
    Db::connect(&config(&url)).await.unwrap();
}

#[tokio::test]
async fn a_frozen_first_host_leaves_the_next_its_share_of_the_time_and_is_not_asked_first_again() {
    let farm = Farm::new().await;
    let name = farm.test.name();
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (frozen, port) = (silent.local_addr().unwrap().port(), farm.test.port());
    let url = format!("postgresql://farm@127.0.0.1:{frozen},127.0.0.1:{port}/{name}");
    let config = config(&url).with_timeouts(Duration::from_secs(10), Duration::from_secs(6));
    Db::connect(&config).await.unwrap();
    let start = Instant::now();
    Db::connect(&config).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

/// A host that takes connections and says nothing.
async fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_host_that_says_nothing_costs_far_less_than_its_share_of_the_time() {
    let farm = Farm::new().await;
    let name = farm.test.name();
    let ((_held, one), (_too, two)) = (silent().await, silent().await);
    let url = format!(
        "postgresql://farm@127.0.0.1:{one},127.0.0.1:{two},127.0.0.1:{}/{name}",
        farm.test.port()
    );
    let patient = config(&url).with_timeouts(Duration::from_secs(10), Duration::from_secs(120));
    let start = Instant::now();
    Db::connect(&patient).await.unwrap();
    // Two seconds; an even share of the time for each would be 80 s.
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
}

/// The second host is asked meanwhile, and refuses.
#[tokio::test]
async fn a_first_host_that_is_only_slow_is_still_waited_for() {
    let farm = Farm::new().await;
    let name = farm.test.name();
    let ((slow, first), (refusing, second)) = (silent().await, silent().await);
    let primary = farm.test.port();
    let proxy = tokio::spawn(async move {
        let (mut client, _) = slow.accept().await.unwrap();
        // It answers only after the other was asked.
        drop(refusing.accept().await.unwrap());
        let mut server = TcpStream::connect(("127.0.0.1", primary)).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut server).await;
    });
    let url = format!("postgresql://farm@127.0.0.1:{first},127.0.0.1:{second}/{name}");
    let patient = config(&url).with_timeouts(Duration::from_secs(10), Duration::from_secs(60));
    let db = Db::connect(&patient).await.unwrap();
    now(&db).await.unwrap();
    proxy.abort();
}

/// A former primary without its standby, beside its successor.
#[tokio::test]
async fn a_server_that_confirms_no_commit_is_left_for_another_that_does() {
    let former = PrivateServer::start(Options::default()).await;
    let successor = PrivateServer::start(Options::default()).await;
    let db = Db::new(&short(config(&url_of(&[&former, &successor]))));
    assert!(now(&db).await.is_ok());
    let admin = former.admin().await;
    admin
        .exec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        .await;
    admin.exec("SELECT pg_reload_conf()").await;
    let event = [event()];
    // The setting takes effect some moments after the reload.
    let error = loop {
        if let Err(error) = record_events(&db, &event).await {
            break error;
        }
    };
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error}");
    record_events(&db, &event).await.unwrap();
    let told = "SELECT count(*) FROM farmhand.event WHERE kind = 'x'";
    let row = successor.client().await.query_one(told, &[]).await;
    assert_eq!(row.unwrap().get::<_, i64>(0), 1);
}
