//! Attacks: each is refused and written down.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{raw, request, send};
use super::fixture::Fixture;

const ME: &str = "/api/v1/me";

#[tokio::test]
async fn wrong_old_and_empty_tokens_open_nothing() {
    let f = Fixture::new().await;
    f.get("", ME).await.problem(401);
    let empty = send(f.port, "GET", ME, &[("Authorization", "")], "").await;
    empty.problem(401);
    let basic = send(
        f.port,
        "GET",
        ME,
        &[("Authorization", "Basic YWRtaW46YWRtaW4=")],
        "",
    )
    .await;
    basic.problem(401);
    send(f.port, "GET", ME, &[], "").await.problem(401);
    send(f.port, "GET", ME, &[("Cookie", "farmhand=")], "")
        .await
        .problem(401);
    assert_eq!(f.recorded("no_token").await["path"], ME);
    assert_eq!(f.recorded("bad_token").await["remote"], "127.0.0.1");

    let short = f.token("short", "admin", "1s");
    let gone = f.token("gone", "admin", "1h");
    assert_eq!(f.get(&gone, ME).await.status, 200);
    f.farm.ok(&["token", "revoke", "gone"]);
    f.refused_soon("a revoked token", async || f.get(&gone, ME).await.status)
        .await;
    f.get(&gone, ME).await.problem(401);
    assert_eq!(f.recorded("revoked_token").await["token"], "gone");
    f.refused_soon("an expired token", async || f.get(&short, ME).await.status)
        .await;
    f.get(&short, ME).await.problem(401);
    assert_eq!(f.recorded("expired_token").await["token"], "short");
}

#[tokio::test]
async fn guessing_is_slowed_down_and_whoever_is_known_goes_on() {
    let f = Fixture::new().await;
    let good = f.token("good", "viewer", "1h");
    let mut stopped = false;
    for n in 0..40 {
        // Known before the others are, and asked for within the moment that it is believed for.
        assert_eq!(f.get(&good, ME).await.status, 200, "after {n} guesses");
        let guess = format!("fh_{n:A<43}");
        stopped |= f.get(&guess, ME).await.status == 429;
        if stopped {
            break;
        }
    }
    assert!(stopped, "40 guesses");
    let row = f.recorded("rate").await;
    assert_eq!(row["remote"], "127.0.0.1");
    let rows = f.refusals("bad_token").await.len();
    assert!(rows <= 2, "{rows} rows for one kind");
}

#[tokio::test]
async fn another_site_cannot_act_with_a_browsers_cookie() {
    let f = Fixture::new().await;
    let cookie = f.login(&f.token("person", "operator", "1h")).await;
    let path = "/api/v1/jobs/daily/pause";
    let post = async |extra: &[(&str, &str)]| {
        let mut headers = vec![("Cookie", cookie.as_str())];
        headers.extend_from_slice(extra);
        send(f.port, "POST", path, &headers, "").await
    };
    for from in [
        &[][..],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", "http://farm"), ("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Sec-Fetch-Site", "none")],
    ] {
        post(from).await.problem(403);
    }
    let row = f.recorded("cross_site").await;
    assert_eq!((&row["token"], &row["path"]), (&"person".into(), &path.into()));
    let paused = "SELECT paused FROM farmhand.job WHERE job_id = 'daily'";
    assert!(!f.farm.sql.value::<bool>(paused).await);
    assert_eq!(post(&[("Origin", "http://farm")]).await.status, 200);
    assert_eq!(post(&[("Sec-Fetch-Site", "same-origin")]).await.status, 200);

    let form = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Origin", "http://evil.example"),
    ];
    send(f.port, "POST", "/login", &form, "token=x")
        .await
        .problem(403);

    let own = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(send(f.port, "POST", "/logout", &own, "").await.status, 303);
    send(f.port, "GET", ME, &own, "").await.problem(401);
    // A session is no token, and a token is no session.
    let secret = cookie.split_once('=').unwrap().1;
    f.get(secret, ME).await.problem(401);
}

#[tokio::test]
async fn a_session_is_good_on_every_agent_and_ends_with_its_token() {
    let mut f = Fixture::new().await;
    f.farm.add_agent("n2").await;
    let cookie = f.login(&f.token("person", "viewer", "1h")).await;
    let other = f.farm.agents[1].port;
    let headers = [("Cookie", cookie.as_str())];
    assert_eq!(send(other, "GET", ME, &headers, "").await.status, 200);
    let stored = "SELECT encode(hash, 'escape') FROM farmhand.web_session UNION ALL SELECT encode(hash, 'escape') \
                  FROM farmhand.api_token";
    for row in f.farm.sql.query(stored, &[]).await.unwrap() {
        assert!(!row.get::<_, String>(0).contains("fh_"), "a secret is stored");
    }
    f.farm.ok(&["token", "revoke", "person"]);
    let session = async || send(other, "GET", ME, &headers, "").await.status;
    f.refused_soon("the session of a revoked token", session).await;
}

#[tokio::test]
async fn a_wrong_login_is_written_down_and_told_nothing() {
    let f = Fixture::new().await;
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    for body in [
        "token=",
        "token=admin",
        "token=fh_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        let reply = send(f.port, "POST", "/login", &form, body).await;
        assert_eq!(
            (reply.status, reply.header("location")),
            (303, Some("/login?wrong")),
            "{reply:?}"
        );
        assert!(reply.header("set-cookie").is_none());
    }
    f.recorded("bad_login").await;
    send(f.port, "POST", "/login", &form, "user=x").await.problem(400);
}

#[tokio::test]
async fn paths_are_taken_as_they_are() {
    let f = Fixture::new().await;
    let admin = f.token("root", "admin", "1h");
    for path in [
        "/../api/v1/me",
        "/assets/../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets//etc/passwd",
        "/API/V1/ME",
        "/api/v1/me/",
        "//api/v1/me",
        "/api/v1/me%00",
        "/api/v1/./me",
        "/metrics/../api/v1/me",
        "/login/../api/v1/me",
    ] {
        for token in ["", admin.as_str()] {
            let reply = f.get(token, path).await;
            assert!([400, 401, 404].contains(&reply.status), "{path}: {reply:?}");
            assert!(!reply.body.contains("root:"), "{path}");
        }
    }
    // The role is the matched route's, whatever the method is called.
    for method in ["PATCH", "TRACE", "DELETE", "OPTIONS", "get", "X"] {
        let reply = f.call(method, "", "/api/v1/jobs/daily/pause", "").await;
        assert!(
            [400, 401, 404, 405].contains(&reply.status),
            "{method}: {reply:?}"
        );
    }
    let overridden = [
        ("X-HTTP-Method-Override", "POST"),
        ("X-Original-URL", "/metrics"),
        ("X-Forwarded-For", "::1"),
    ];
    send(f.port, "GET", ME, &overridden, "").await.problem(401);
    let long = format!("{ME}?x={}", "a".repeat(5_000));
    f.get(&admin, &long).await.problem(413);
}

#[tokio::test]
async fn names_are_data_for_the_database_the_log_and_the_headers() {
    let mut f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    for name in [
        "'%3B%20DROP%20TABLE%20farmhand.job%3B%20--",
        "%22%20OR%201=1",
        "%27)%20RETURNING%20*%20--",
        "..%2f..%2fetc%2fpasswd",
        "%0d%0aSet-Cookie:%20farmhand=x",
        "%1b%5b2J",
        "%F0%9F%90%84",
        "%00",
        "%ff",
    ] {
        let reason = format!(r#"{{"reason": "{name}"}}"#);
        for (path, body) in [
            (format!("/api/v1/jobs/{name}/pause"), ""),
            (format!("/api/v1/nodes/{name}/cordon"), ""),
            ("/api/v1/jobs/done/pause?preview=true".to_owned(), &reason),
        ] {
            let reply = f.post(&token, &path, body).await;
            assert!([200, 400, 404].contains(&reply.status), "{path}: {reply:?}");
            assert!(reply.header("set-cookie").is_none(), "{path}: {reply:?}");
        }
    }
    let jobs: i64 = f.farm.sql.value("SELECT count(*) FROM farmhand.job").await;
    assert_eq!(jobs, 3);
    // Without a token the same ends in the log and in the events, and stays one line of plain characters.
    f.post("", "/api/v1/jobs/%0aERROR%20forged%1b%5b31m/pause", "")
        .await
        .problem(401);
    f.recorded("bad_token").await;
    let log = f.farm.agent("n1").log();
    assert!(!log.lines().any(|line| line.starts_with("ERROR forged")), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
    for bytes in [
        &b"GET /api/v1/me HTTP/1.1\r\nHost: farm\r\nAuthorization: Bearer a\nX: y\x00\r\n\r\n"[..],
        b"GET /api/v1/me HTTP/1.1\r\nHost: farm\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /api/v1/me HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /api/v1/me\r\n\r\n",
    ] {
        let answer = raw(f.port, bytes).await;
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    f.recorded("malformed").await;
}

#[tokio::test]
async fn large_and_slow_requests_end_within_their_bounds() {
    let f = Fixture::new().await;
    let token = f.token("ops", "submitter", "1h");
    let bearer = format!("Authorization: Bearer {token}");
    let path = "/api/v1/jobs/done/runs";
    let large = format!(r#"{{"params": {{"since": "{}"}}}}"#, "x".repeat(1 << 20));
    f.post(&token, path, &large).await.problem(413);
    f.recorded("body_size").await;
    // Of a login, which anybody may send, a few KiB are taken.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let long = format!("token={}", "x".repeat(8 << 10));
    assert_eq!(send(f.port, "POST", "/login", &form, &long).await.status, 413);
    // Nobody is asked for a body before they have shown a token.
    let endless = format!("POST {path} HTTP/1.1\r\nHost: farm\r\nContent-Length: 1000000000\r\n\r\n");
    let started = Instant::now();
    assert!(raw_head(f.port, &endless).await.contains(" 401 "));
    assert!(started.elapsed() < Duration::from_secs(5));

    let slow_body = format!(
        "POST {path} HTTP/1.1\r\nHost: farm\r\n{bearer}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    let slow_head = "GET /api/v1/me HTTP/1.1\r\nHost: farm\r\nX-Slow: ";
    let (body, head, taken) = tokio::join!(
        drip(f.port, &slow_body),
        drip(f.port, slow_head),
        takes_nothing(f.port)
    );
    assert!(taken, "whoever reads no answers keeps a connection for good");
    assert!(body.0.contains(" 408 "), "{body:?}");
    assert!(!head.0.contains(" 200 "), "{head:?}");
    for (_, took) in [body, head] {
        assert!(took < Duration::from_secs(25), "{took:?}");
    }
    f.recorded("body_time").await;
    f.recorded("head_time").await;
    f.recorded("taking_time").await;
    // Meanwhile and afterwards the others are served.
    assert_eq!(f.get(&token, ME).await.status, 200);
}

/// The first of the answer, while the rest of the request is never sent.
async fn raw_head(port: u16, text: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = vec![0; 64];
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut answer)).await;
    answer.truncate(read.expect("an answer").unwrap());
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends the beginning, then a byte each half second until the server has enough.
async fn drip(port: u16, beginning: &str) -> (String, Duration) {
    let started = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(beginning.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while started.elapsed() < Duration::from_secs(40) {
        match tokio::time::timeout(Duration::from_millis(500), stream.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(n)) => answer.extend_from_slice(&buffer[..n]),
            Err(_) => {
                if stream.write_all(b"x").await.is_err() {
                    break;
                }
            }
        }
        if !answer.is_empty() {
            break;
        }
    }
    (String::from_utf8_lossy(&answer).into_owned(), started.elapsed())
}

/// Asks, without a token, for more than it reads; whether the server hangs up.
async fn takes_nothing(port: u16) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let asked = "GET /metrics HTTP/1.1\r\nHost: farm\r\n\r\n".repeat(1_000);
    let asking = async { while stream.write_all(asked.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(60), asking)
        .await
        .is_ok()
}

#[tokio::test]
async fn a_flood_of_refusals_fills_no_table() {
    let f = Fixture::new().await;
    for n in 0..300 {
        let path = format!("/api/v1/jobs/{n}/pause");
        let text = request("POST", &path, &[], "");
        assert!(raw(f.port, text.as_bytes()).await.contains(" 401 "));
    }
    f.recorded("no_token").await;
    assert_eq!(
        f.refusals("no_token").await.len(),
        1,
        "one kind, one row a minute"
    );
    let counted = f.farm.agents[0]
        .metric("farmhand_http_refused_total", &["no_token"])
        .await;
    assert!(counted >= 300.0, "{counted}");
}
