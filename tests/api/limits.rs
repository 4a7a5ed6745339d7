//! What one caller can take away from the others: their runs, their way in, the health checks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use farmhand_tests::farm::SOON;
use tokio::net::{TcpSocket, TcpStream};

use super::actions::until;
use super::client::send;
use super::fixture::Fixture;

const ME: &str = "/api/v1/me";

#[tokio::test]
async fn who_may_only_submit_ends_no_run_of_others() {
    let f = Fixture::new().await;
    let token = f.token("shop", "submitter", "1h");
    let run = f.farm.submit("long").await;
    until(&f, run, "running").await;
    let path = "/api/v1/jobs/long/runs";
    let problem = f
        .post(&token, path, r#"{"overlap": "replace"}"#)
        .await
        .problem(403);
    assert!(
        problem["title"].as_str().unwrap().contains("operator"),
        "{problem}"
    );
    let preview = f
        .post(
            &token,
            &format!("{path}?preview=true"),
            r#"{"overlap": "replace"}"#,
        )
        .await;
    preview.problem(403);
    assert_eq!(f.recorded("role").await["token"], "shop");
    assert_eq!(f.farm.run(run).await.state, "running");
    assert_eq!(f.post(&token, path, r#"{"overlap": "queue"}"#).await.status, 200);
    let operator = f.token("ops", "operator", "1h");
    assert_eq!(
        f.post(&operator, path, r#"{"overlap": "replace"}"#).await.status,
        200
    );
    assert_eq!(f.farm.over(run, SOON).await.state, "cancelled");
}

#[tokio::test]
async fn a_good_token_comes_through_from_an_address_that_guesses() {
    let f = Fixture::new().await;
    let mut stopped = false;
    for n in 0..40 {
        stopped |= f.get(&format!("fh_{n:A<43}"), ME).await.status == 429;
    }
    assert!(stopped, "40 guesses");
    let good = f.token("good", "viewer", "1h");
    assert_eq!(f.get(&good, ME).await.status, 200, "it was never shown before");
    // What it may guess grows again while the good one is made.
    let mut again = false;
    for n in 0..25 {
        again |= f.get(&format!("fh_x{n:A<42}"), ME).await.status == 429;
    }
    assert!(again, "25 more guesses");
}

#[tokio::test]
async fn a_token_begins_a_bounded_number_of_sessions() {
    let f = Fixture::new().await;
    let body = format!("token={}", f.token("person", "viewer", "1h"));
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let mut stopped = 0;
    for _ in 0..160 {
        let reply = send(f.port, "POST", "/login", &form, &body).await;
        stopped += u32::from(reply.status == 429);
    }
    assert!(stopped > 0, "160 sessions were begun");
    assert_eq!(f.recorded("rate").await["token"], "person");
}

#[tokio::test]
async fn health_is_answered_while_every_other_place_is_taken() {
    let f = Fixture::new().await;
    let mut taken: Vec<TcpStream> = Vec::new();
    // As many as an agent serves, and more, from as many addresses as that needs.
    for from in 2..=6 {
        for _ in 0..128 {
            let socket = TcpSocket::new_v4().expect("a socket");
            let own = IpAddr::V4(Ipv4Addr::new(127, 0, 0, from));
            socket
                .bind(SocketAddr::new(own, 0))
                .expect("an address of the loopback");
            let to = SocketAddr::from(([127, 0, 0, 1], f.port));
            taken.push(socket.connect(to).await.expect("a connection"));
        }
    }
    // The others are served on reserved places, which serve nothing else.
    for path in ["/healthz", "/readyz"] {
        let reply = send(f.port, "GET", path, &[], "").await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
    }
    assert_eq!(send(f.port, "GET", "/metrics", &[], "").await.status, 404);
    drop(taken);
}

#[tokio::test]
async fn the_metrics_ask_for_a_token_where_that_is_wanted() {
    let f = Fixture::with(&["--metrics-token", "on"]).await;
    assert_eq!(send(f.port, "GET", "/metrics", &[], "").await.status, 401);
    assert_eq!(send(f.port, "GET", "/healthz", &[], "").await.status, 200);
    let token = f.token("prometheus", "viewer", "1h");
    let reply = f.get(&token, "/metrics").await;
    assert!(
        reply.status == 200 && reply.body.contains("farmhand_"),
        "{reply:?}"
    );
}

#[tokio::test]
async fn actions_that_wait_shut_nobody_out() {
    let f = Fixture::new().await;
    let (operator, other) = (f.token("ops", "operator", "1h"), f.token("other", "viewer", "1h"));
    let run = f.farm.submit("long").await;
    until(&f, run, "running").await;
    let lock = f.farm.database.client().await;
    let admin = f.farm.database.admin().await;
    let hold = "BEGIN; SELECT FROM farmhand.run_live FOR UPDATE";
    lock.exec(hold).await;
    let path = format!("/api/v1/runs/{run}/cancel");
    // As many as an agent does at once.
    let cancel = async || f.post(&operator, &path, "").await.status;
    let waiting = async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            AND query LIKE '%SET cancel_by%' AND pid <> pg_backend_pid()";
        admin.value::<i64>(sql).await
    };
    let asks = async {
        f.farm
            .eventually("both actions wait", SOON, async || match waiting().await {
                2 => Ok(()),
                n => Err(format!("{n} do")),
            })
            .await;
        // It was never shown: the database is asked for it.
        let status = f.get(&other, ME).await.status;
        let still = waiting().await;
        lock.exec("ROLLBACK").await;
        (status, still)
    };
    let (_, _, answered) = tokio::join!(cancel(), cancel(), asks);
    assert_eq!(
        answered,
        (200, 2),
        "the status, and the actions that waited meanwhile"
    );
}
