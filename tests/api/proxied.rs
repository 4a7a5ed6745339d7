//! People whom a proxy has signed in: by its address, its token and a header, and by nothing less.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use farmhand_tests::farm::Farm;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::client::{Reply, raw, request, send};
use super::fixture::Fixture;

const ME: &str = "/api/v1/me";
const PAUSE: &str = "/api/v1/jobs/daily/pause";
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const OWN: (&str, &str) = ("Sec-Fetch-Site", "same-origin");
const SETTINGS: &str = r#"
[trusted_proxy]
addresses = ["127.0.0.9/32"]
token_name = "sso"
user_header = "X-Forwarded-User"
groups_header = "X-Forwarded-Groups"
[trusted_proxy.users]
"ann@example.org" = "operator"
eve = "viewer"
root = "admin"
[trusted_proxy.groups]
farm-operators = "operator"
staff = "viewer"
"#;

/// An agent behind a proxy that has this token.
struct Behind {
    f: Fixture,
    token: String,
}

impl Behind {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agent.toml");
        std::fs::write(&file, SETTINGS).unwrap();
        let f = Fixture::with(&["--config", file.to_str().unwrap()]).await;
        let token = f.token("sso", "operator", "1h");
        Self { f, token }
    }

    /// As a proxy at this address passes a request on.
    async fn from(&self, at: Ipv4Addr, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let bearer = format!("Bearer {}", self.token);
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend_from_slice(headers);
        Reply::parse(&passed_on(at, self.f.port, request(method, path, &all, "").as_bytes()).await)
    }

    async fn as_user(&self, user: &str) -> Reply {
        self.from(PROXY, "GET", ME, &[("X-Forwarded-User", user)]).await
    }

    async fn is_paused(&self) -> bool {
        let sql = "SELECT paused FROM farmhand.job WHERE job_id = 'daily'";
        self.f.farm.sql.value(sql).await
    }
}

/// Sends bytes from this address and reads until the end.
async fn passed_on(at: Ipv4Addr, port: u16, bytes: &[u8]) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(at), 0)).unwrap();
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// A proxy that has signed this user in: it takes what the browser says of both headers away and puts in its own.
async fn proxy(b: &Behind, user: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let own = listener.local_addr().unwrap().port();
    let (port, token) = (b.f.port, b.token.clone());
    tokio::spawn(async move {
        while let Ok((mut browser, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(browser.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let mut lines: Vec<&str> = head.trim_end().split("\r\n").collect();
            lines.retain(|line| {
                let line = line.to_ascii_lowercase();
                !line.starts_with("authorization:") && !line.starts_with("x-forwarded-")
            });
            let (bearer, user) = (
                format!("Authorization: Bearer {token}"),
                format!("X-Forwarded-User: {user}"),
            );
            lines.extend([bearer.as_str(), user.as_str()]);
            let passed = lines.join("\r\n") + "\r\n\r\n";
            let answer = passed_on(PROXY, port, passed.as_bytes()).await;
            browser.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    own
}

#[tokio::test]
async fn whom_the_proxy_signed_in_acts_by_name_within_their_role() {
    let b = Behind::new().await;
    let ann = proxy(&b, "ann@example.org").await;
    let me = send(ann, "GET", ME, &[("X-Forwarded-User", "root")], "")
        .await
        .json();
    assert_eq!(
        (&me["name"], &me["role"]),
        (&"ann@example.org".into(), &"operator".into())
    );
    let page = send(ann, "GET", "/", &[("Accept", "text/html")], "").await;
    assert!(
        page.status == 200 && page.body.contains("ann@example.org"),
        "{page:?}"
    );
    assert_eq!(send(ann, "POST", PAUSE, &[OWN], "").await.status, 200);
    assert!(b.is_paused().await);
    let audit = b.f.farm.ok(&["events", "--audit", "--json"]);
    assert!(audit.contains("header:ann@example.org@127.0.0.9"), "{audit}");

    let eve = proxy(&b, "eve").await;
    send(eve, "POST", "/api/v1/jobs/daily/resume", &[OWN], "")
        .await
        .problem(403);
    assert!(b.is_paused().await);
    assert_eq!(b.f.recorded("role").await["token"], "eve");
    // Nobody gets more than the proxy's token has.
    assert_eq!(b.as_user("root").await.json()["role"], "operator");
    let sessions = "SELECT count(*) FROM farmhand.web_session";
    let sessions: i64 = b.f.farm.sql.value(sessions).await;
    assert_eq!(sessions, 0);
    b.f.farm.ok(&["token", "revoke", "sso"]);
    b.f.refused_soon("the proxy with a revoked token", async || {
        b.as_user("eve").await.status
    })
    .await;
}

#[tokio::test]
async fn groups_give_the_highest_of_their_roles_and_a_users_own_entry_counts_more() {
    let b = Behind::new().await;
    for (user, groups, role) in [
        ("bob", "staff", "viewer"),
        ("bob", "other, staff,farm-operators", "operator"),
        ("eve", "farm-operators", "viewer"),
    ] {
        let headers = [("X-Forwarded-User", user), ("X-Forwarded-Groups", groups)];
        let reply = b.from(PROXY, "GET", ME, &headers).await;
        assert_eq!(reply.json()["role"], role, "{user} of {groups}: {reply:?}");
    }
    for groups in ["", "Staff", "staffs", "farm"] {
        let headers = [("X-Forwarded-User", "bob"), ("X-Forwarded-Groups", groups)];
        b.from(PROXY, "GET", ME, &headers).await.problem(403);
    }
    let twice = [
        ("X-Forwarded-User", "bob"),
        ("X-Forwarded-Groups", "staff"),
        ("X-Forwarded-Groups", "x"),
    ];
    b.from(PROXY, "GET", ME, &twice).await.problem(403);
}

#[tokio::test]
async fn the_header_is_believed_from_the_proxys_address_with_its_token_alone() {
    let b = Behind::new().await;
    let root = [("X-Forwarded-User", "root")];
    // A user of the machine, without the token, also from the proxy's own address.
    send(b.f.port, "GET", ME, &root, "").await.problem(401);
    let bare = request("GET", ME, &root, "");
    Reply::parse(&passed_on(PROXY, b.f.port, bare.as_bytes()).await).problem(401);
    // With the proxy's token, from elsewhere: no user, and not the token's own rights.
    let elsewhere = Ipv4Addr::new(127, 0, 0, 8);
    b.from(elsewhere, "GET", ME, &root).await.problem(401);
    b.from(elsewhere, "GET", ME, &[]).await.problem(401);
    let row = b.f.recorded("not_the_proxy").await;
    assert_eq!(
        (&row["token"], &row["remote"]),
        (&"sso".into(), &"127.0.0.8".into())
    );
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let login = send(b.f.port, "POST", "/login", &form, &format!("token={}", b.token)).await;
    assert_eq!(
        (login.status, login.header("set-cookie")),
        (303, None),
        "{login:?}"
    );
    // Another token is whose it is, whatever the header says, from wherever.
    let viewer = b.f.token("viewer", "viewer", "1h");
    let bearer = format!("Bearer {viewer}");
    let both = request("GET", ME, &[("Authorization", &bearer), root[0]], "");
    for at in [PROXY, elsewhere] {
        let me = Reply::parse(&passed_on(at, b.f.port, both.as_bytes()).await).json();
        assert_eq!((&me["name"], &me["role"]), (&"viewer".into(), &"viewer".into()));
    }
    // An agent without the setting knows no such header.
    let plain = Farm::new().start().await;
    send(plain.agents[0].port, "GET", ME, &root, "")
        .await
        .problem(401);
}

#[tokio::test]
async fn a_header_that_names_no_known_user_once_gives_nothing() {
    let b = Behind::new().await;
    let long = "a".repeat(5_000);
    for user in [
        "",
        "nobody",
        "Eve",
        "eve ann",
        "eve,root",
        "eve\tx",
        "ev\u{e9}",
        long.as_str(),
    ] {
        b.as_user(user).await.problem(403);
    }
    b.from(PROXY, "GET", ME, &[]).await.problem(403);
    for users in [["eve", "root"], ["eve", "eve"], ["eve", ""]] {
        let twice = users.map(|user| ("X-Forwarded-User", user));
        b.from(PROXY, "GET", ME, &twice).await.problem(403);
    }
    b.f.recorded("unknown_user").await;
    let start = format!(
        "GET {ME} HTTP/1.1\r\nHost: farm\r\nConnection: close\r\nAuthorization: Bearer {}\r\n",
        b.token
    );
    for control in ["eve\x01", "eve\0", "eve\u{1b}[31m", "eve\rX: y"] {
        let bytes = format!("{start}X-Forwarded-User: {control}\r\n\r\n");
        let answer = passed_on(PROXY, b.f.port, bytes.as_bytes()).await;
        assert!(!answer.contains(" 200 "), "{control:?}: {answer}");
    }
    assert!(!raw(b.f.port, b"\r\n").await.contains(" 200 "));
}

#[tokio::test]
async fn another_site_cannot_act_as_whom_the_proxy_signed_in() {
    let b = Behind::new().await;
    let ann = proxy(&b, "ann@example.org").await;
    for from in [
        &[][..],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", "http://farm"), ("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Sec-Fetch-Site", "none")],
        // What the browser is made to send does not make it another caller's request.
        &[("Authorization", "Bearer x"), ("Cookie", "farmhand=x")],
    ] {
        send(ann, "POST", PAUSE, from, "").await.problem(403);
    }
    assert_eq!(b.f.recorded("cross_site").await["token"], "ann@example.org");
    assert!(!b.is_paused().await);
    assert_eq!(
        send(ann, "POST", PAUSE, &[("Origin", "http://farm")], "")
            .await
            .status,
        200
    );
}
