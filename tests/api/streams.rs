//! Output that is followed, and pages that are told what changed.

use std::time::Duration;

use farmhand_tests::farm::SOON;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::fixture::Fixture;

/// Five lines with pauses between them.
const CHATTY: &str = "[job.chatty]\ncommand = 'for n in 1 2 3 4 5; do echo line $n ä; sleep 0.4; done'\n";

/// One event of a stream.
#[derive(Clone, Debug, Default)]
struct Event {
    kind: String,
    id: String,
    data: Value,
}

/// A stream as a browser reads it.
struct Listener {
    lines: BufReader<TcpStream>,
    status: u16,
}

impl Listener {
    async fn open(f: &Fixture, token: &str, path: &str, last: Option<&str>) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", f.port))
            .await
            .expect("a connection");
        let mut lines = BufReader::new(stream);
        // 1.0: the body is not cut into chunks.
        let mut request = format!("GET {path} HTTP/1.0\r\nHost: farm\r\nAuthorization: Bearer {token}\r\n");
        if let Some(last) = last {
            request.push_str(&format!("Last-Event-ID: {last}\r\n"));
        }
        request.push_str("\r\n");
        lines.write_all(request.as_bytes()).await.expect("a request");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = timeout(SOON, lines.read_line(&mut head))
                .await
                .expect("a head in time");
            assert_ne!(read.expect("a head"), 0, "{head}");
        }
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .expect("a status");
        Self { lines, status }
    }

    /// The next event; None at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let mut line = String::new();
            let read = timeout(SOON, self.lines.read_line(&mut line))
                .await
                .expect("an event in time");
            if read.expect("a line") == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", kind)) => event.kind = kind.to_owned(),
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).expect("JSON"),
                _ if line.trim_end().is_empty() && !event.kind.is_empty() => return Some(event),
                _ => {}
            }
        }
    }

    async fn until(&mut self, what: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut seen = Vec::new();
        for _ in 0..500 {
            let event = self
                .next()
                .await
                .unwrap_or_else(|| panic!("the stream ended: {seen:?}"));
            seen.push(event);
            if seen.last().is_some_and(&what) {
                return seen;
            }
        }
        panic!("it did not come: {seen:?}")
    }
}

fn text(events: &[Event]) -> String {
    events.iter().filter_map(|e| e.data["text"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_followed_to_its_end_and_a_reconnect_misses_and_repeats_nothing() {
    let f = Fixture::new().await;
    f.farm.apply(CHATTY);
    let token = f.token("look", "viewer", "1h");
    let run = f.farm.submit("chatty").await;
    let path = format!("/api/v1/runs/{run}/log/follow");
    let mut listener = Listener::open(&f, &token, &path, None).await;
    assert_eq!(listener.status, 200);
    let first = listener.until(|e| e.kind == "log").await;
    drop(listener);
    let last = first.last().expect("an event").id.clone();
    let mut listener = Listener::open(&f, &token, &path, Some(&last)).await;
    let rest = listener.until(|e| e.kind == "end").await;
    assert_eq!(
        text(&first) + &text(&rest),
        "line 1 ä\nline 2 ä\nline 3 ä\nline 4 ä\nline 5 ä\n"
    );
    assert_eq!(rest.last().expect("an end").data["state"], "succeeded");
    assert!(listener.next().await.is_none(), "nothing comes after the end");
    let mut gone = Listener::open(&f, &token, "/api/v1/runs/999999/log/follow", None).await;
    assert_eq!(gone.status, 404);
    let mut body = String::new();
    let _ = gone.lines.read_to_string(&mut body).await;
    assert!(body.contains("there is no run 999999"), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_told_which_runs_changed() {
    let f = Fixture::new().await;
    let token = f.token("look", "viewer", "1h");
    // All that changes after `hello` is told: it comes when the agent has looked, and not before.
    let lock = "BEGIN; LOCK TABLE farmhand.job_seq IN ACCESS EXCLUSIVE MODE";
    f.farm.exec(lock).await;
    let mut listener = Listener::open(&f, &token, "/api/v1/stream", None).await;
    let early = timeout(Duration::from_millis(500), listener.next()).await;
    assert!(early.is_err(), "{early:?}");
    f.farm.exec("COMMIT").await;
    assert_eq!(listener.next().await.expect("a first event").kind, "hello");
    let run = f.farm.submit("done").await;
    let about = |e: &Event| {
        e.data["runs"]
            .as_array()
            .is_some_and(|runs| runs.contains(&run.into()))
    };
    let told = listener.until(about).await;
    assert!(
        told.last()
            .is_some_and(|e| e.kind == "changed" && e.data["changed"][0] == "runs"),
        "{told:?}"
    );
    f.farm.succeeds(run).await;
    f.farm.ok(&["job", "pause", "daily"]);
    listener
        .until(|e| {
            e.data["changed"]
                .as_array()
                .is_some_and(|c| c.contains(&"jobs".into()))
        })
        .await;
    let mut again = Listener::open(&f, &token, "/api/v1/stream", Some("7")).await;
    assert_eq!(again.next().await.expect("a first event").kind, "resync");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_serves_so_many_streams_and_gives_places_back() {
    let f = Fixture::new().await;
    let token = f.token("look", "viewer", "1h");
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(Listener::open(&f, &token, "/api/v1/stream", None).await);
    }
    assert!(open.iter().all(|listener| listener.status == 200));
    f.get(&token, "/api/v1/stream").await.problem(503);
    drop(open);
    f.farm
        .eventually("a place is given back", SOON, async || {
            match Listener::open(&f, &token, "/api/v1/stream", None).await.status {
                200 => Ok(()),
                other => Err(other.to_string()),
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_route_cannot_read_is_a_problem_that_says_why() {
    let f = Fixture::new().await;
    let token = f.token("look", "viewer", "1h");
    for (path, why) in [
        ("/api/v1/runs?limit=0", "limit"),
        ("/api/v1/runs?limit=201", "limit"),
        ("/api/v1/runs?state=sleeping", "sleeping"),
        ("/api/v1/runs?cursor=00", "cursor"),
        ("/api/v1/jobs?colour=red", "colour"),
        ("/api/v1/jobs?label=role", "name=value"),
        ("/api/v1/events?severity=loud", "loud"),
        ("/api/v1/events?kind=run_submited", "run_submitted"),
        (
            "/api/v1/lanes?from=2026-01-01T00:00:00Z&to=2026-03-01T00:00:00Z",
            "seven days",
        ),
        ("/api/v1/runs/seven", "seven"),
        ("/api/v1/runs/1/log?from=1&lines=1", "not both"),
        ("/api/v1/runs/1/log/follow?attempt=-1", "attempt"),
    ] {
        let problem = f.get(&token, path).await.problem(400);
        assert!(
            problem["detail"].as_str().is_some_and(|d| d.contains(why)),
            "{path}: {problem}"
        );
    }
    for path in [
        "/api/v1/jobs/nothing",
        "/api/v1/runs/999999",
        "/api/v1/nodes/nobody",
        "/api/v1/runs/999999/log",
    ] {
        f.get(&token, path).await.problem(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_not_known_is_an_error_on_the_page_as_in_the_api() {
    let f = Fixture::new().await;
    let token = f.token("ops", "operator", "1h");
    let mut wrong = Vec::new();
    for (path, why) in [
        ("/runs?state=faild", "faild"),
        ("/runs?stat=failed", "stat"),
        ("/runs?kind=adhoc", "kind"),
        ("/jobs?state=faild", "faild"),
        ("/jobs?kind=daily", "daily"),
        ("/jobs?sort=size", "size"),
        ("/jobs?nam=long", "nam"),
        ("/nodes?state=gone", "gone"),
        ("/nodes?sort=size", "size"),
        ("/nodes?stat=ready", "stat"),
        ("/pools?sort=size", "size"),
        ("/pools?name=disk", "name"),
        ("/events?about=nothing", "nothing"),
        ("/events?jb=long", "jb"),
        ("/ahead?for=day", "for"),
        ("/?window=2h", "2h"),
        ("/?jb=long", "jb"),
        ("/jobs/long?when=12:00", "when"),
        ("/runs/1?atempt=1", "atempt"),
        ("/runs/1/log?lin=1", "lin"),
        ("/runs/1/log.txt?atempt=1", "atempt"),
        ("/runs/1/matches?q=a&atempt=1", "atempt"),
        // What acts: a filter that is dropped would take everything.
        ("/act/cancel-runs?job=long&state=du", "du"),
        ("/act/cancel-runs?state=live&jb=long", "jb"),
        ("/act/cancel-runs?state=live&job=&job=long", "job"),
        ("/act/retry-runs?job=long&stat=lost", "stat"),
        ("/act/cancel?run=1&fring=yes", "fring"),
        ("/act/run?job=long&overlap=skp", "skp"),
        ("/act/run?job=long&overlp=skip", "overlp"),
        ("/api/v1/runs?stat=failed", "stat"),
        ("/api/v1/pools?name=disk", "name"),
    ] {
        let reply = f.get(&token, path).await;
        if reply.status != 400 || !reply.body.contains(why) {
            wrong.push(format!("{path}: {}", reply.status));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // What the forms send, with what is left empty in them.
    for path in [
        "/runs?job=&state=due&node=&label=&param=&since=&until=&zone=",
        "/jobs?name=&state=&kind=&label=",
        "/jobs?state=overdue&sort=next",
        "/nodes?state=&sort=running",
        "/events?about=&job=&node=&run=&since=&until=",
        "/?job=&window=15m",
        "/jobs/long?at=",
        "/jobs/long/matches?q=a&runs=100",
        "/act/cancel-runs?job=long&state=due&upto=9&key=k",
    ] {
        let reply = f.get(&token, path).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
    }
}

/// Questions of the agent to the database, by its own count.
async fn asks(f: &Fixture) -> f64 {
    let of = ["op=\"reading_marks\""];
    f.farm.agents[0]
        .metric("farmhand_db_query_duration_seconds_count", &of)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_listen_an_agent_asks_as_often_as_for_one() {
    let f = Fixture::new().await;
    let token = f.token("look", "viewer", "1h");
    assert!(asks(&f).await == 0.0, "nobody listens");
    let began = std::time::Instant::now();
    let mut listeners = Vec::new();
    for _ in 0..8 {
        let mut listener = Listener::open(&f, &token, "/api/v1/stream", None).await;
        // What ends before it is told to nobody.
        assert_eq!(listener.next().await.expect("a first event").kind, "hello");
        listeners.push(listener);
    }
    let run = f.farm.submit("done").await;
    f.farm.over(run, SOON).await;
    for listener in &mut listeners {
        let named = |e: &Event| {
            e.data["runs"]
                .as_array()
                .is_some_and(|runs| runs.contains(&run.into()))
        };
        listener.until(named).await;
    }
    f.farm
        .eventually("it asks on", SOON, async || match asks(&f).await {
            10.0.. => Ok(()),
            few => Err(few.to_string()),
        })
        .await;
    let asked = asks(&f).await;
    // A slow machine asks less often, and none asks more: 150 ms lie between two.
    let most = began.elapsed().as_secs_f64() / 0.15 + 2.0;
    assert!(asked <= most, "{asked} asks, {most} at most");
}
