//! Clients that fall silent in the middle of a transaction: frozen, or behind a network that loses what they are told.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use farmhand_store::Db;
use farmhand_store::protocol::{fire, settle};
use farmhand_tests::pg::config;
use farmhand_tests::proxy::{Flow, Proxy};

use crate::fixture::{Farm, firing, past, spec};

#[tokio::test]
async fn what_a_silent_client_has_locked_is_fired_by_others_long_before_its_statement_is_given_up() {
    let farm = Farm::new().await;
    let at = past(60);
    farm.job("j", spec(), Some(at)).await;
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], farm.test.port()))).await;
    let (direct, own) = (format!(":{}/", farm.test.port()), format!(":{}/", proxy.port()));
    let through = farm.test.agent_tcp_url().replace(&direct, &own);
    let patient = config(&through).with_timeouts(Duration::from_secs(60), Duration::from_secs(10));
    let silent = Db::connect(&patient).await.unwrap();
    proxy.to_client(Flow::Hold);
    let note = "INSERT INTO farmhand.pending (job_id) VALUES ('j')";
    farm.exec(note).await;
    let settling = tokio::spawn(async move { settle(&silent, None).await });
    let holds = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()";
    while farm.i64_of_sessions(holds).await == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let since = Instant::now();
    while fire(&farm.db, &[firing("j", 1, at, &[at])])
        .await
        .unwrap()
        .is_empty()
    {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "its rows are still held"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    proxy.heal();
    assert!(settling.await.unwrap().is_err(), "it hears of it");
    farm.is("SELECT count(*) FROM farmhand.run_live WHERE job_id = 'j'", 1)
        .await;
}
