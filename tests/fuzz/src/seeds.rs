//! What a target begins with: the examples of the documentation, the files that other tests read, and what was found before.

use std::fs;
use std::path::{Path, PathBuf};

/// The inputs of a target that people wrote, and those on which something was once wrong.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = match target {
        "job_file" => [fenced("toml"), below("deploy/examples", ".toml")].concat(),
        "cron" => cron(),
        "crontab" => below("tests/data/crontabs.sample", ".crontab"),
        "script_header" => [fenced("sh"), below("tests/data/graphs", ".edges"), headers()].concat(),
        "http" => requests(),
        "signature" => signatures(),
        "warden" => conversations(),
        "helper" => errands(),
        "output" => output(),
        "record" => records(),
        _ => Vec::new(),
    };
    seeds.retain(|seed| seed.len() <= LARGEST);
    seeds.extend(regressions(target));
    seeds
}

/// Larger ones only make everything slow.
const LARGEST: usize = 16 << 10;

/// Each committed input on which something was wrong, or which reaches what others do not.
pub fn regressions(target: &str) -> Vec<Vec<u8>> {
    below(&format!("tests/fuzz/regressions/{target}"), "")
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|dir| dir.join("deny.toml").exists());
    root.expect("the repository").to_owned()
}

/// The files below a directory whose names end so, in the order of names.
fn below(dir: &str, end: &str) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(dir)).into_iter().flatten() {
        let path = entry.expect("a readable entry").path();
        if path.is_file() && path.to_string_lossy().ends_with(end) {
            files.push(path);
        }
    }
    files.sort();
    files
        .iter()
        .map(|path| fs::read(path).expect("a readable file"))
        .collect()
}

/// The examples in the documentation that are of this language.
fn fenced(language: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let folders = ["guides", "reference", "internals"].map(|folder| format!("docs/{folder}"));
    for page in folders.iter().flat_map(|folder| below(folder, ".md")) {
        let page = String::from_utf8_lossy(&page).into_owned();
        let opened = format!("```{language}\n");
        let examples = page.split(&opened).skip(1);
        found.extend(examples.filter_map(|rest| Some(rest.split_once("```")?.0.as_bytes().to_vec())));
    }
    found
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn cron() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (file, from) in [
        ("cron_vectors.sample.json", "start"),
        ("dst_vectors.sample.json", "from"),
    ] {
        let text = fs::read(root().join("tests/data").join(file)).expect("the vectors");
        let vectors: Vec<serde_json::Value> = serde_json::from_slice(&text).expect("a list");
        for vector in vectors {
            let said = |key: &str| vector[key].as_str().unwrap_or_default().to_owned();
            let parts = [said("expr"), said("tz"), String::new(), said(from)];
            seeds.push(parts.join("\n----\n").into_bytes());
        }
    }
    seeds.extend(texts(&[
        "@every 1h30m\n@daily\n----\nAmerica/New_York\n----\nnightly",
        "H H(0-7) * * H\n----\nAustralia/Lord_Howe\n----\na\n----\n2026-04-04T14:29:59Z",
        "0 0 29 2 MON#5\n----\nUTC\n----\n\n----\n2096-02-29T00:00:00Z",
        "0 0 LW * FRIL\n15-45/7 2 1W,L-3 JAN-MAR ?\n----\nAfrica/Casablanca",
    ]));
    seeds
}

fn headers() -> Vec<Vec<u8>> {
    texts(&[
        "#!/bin/sh\n### BEGIN INIT INFO\n# Provides: a b\n# Required-Start: $local_fs $all\n# Should-Start: c\n# X-Start-Before: d\n\
         # Default-Start: 2 3\n# Default-Stop: 0 6\n### END INIT INFO\n\n----\n#!/bin/sh\n# PROVIDE: c\n# REQUIRE: a DAEMON\n\
         # BEFORE: d\n# KEYWORD: nostart shutdown\n\n----\na b\nb c\nc c\n",
        "# PROVIDE: one\none() { :; }\n# REQUIRE: one\nfunction two {\n  :\n}\n# REQUIRE: two\n# BEFORE: one\nthree () (:)\n",
    ])
}

fn requests() -> Vec<Vec<u8>> {
    let json = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: f\r\nContent-Type: application/json\r\nIdempotency-Key: k1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let form = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: f\r\nOrigin: http://f\r\nCookie: farmhand=x; a=b\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let mut seeds: Vec<String> = [
        "/", "/jobs?q=a&state=failed", "/jobs/a", "/runs?job=a&state=failed,succeeded&cursor=x", "/runs/1", "/runs/1/flow",
        "/runs/1/log?attempt=1&from=0", "/runs/1/log.txt", "/nodes", "/nodes/n1", "/events?kind=claimed", "/login", "/metrics",
        "/healthz", "/readyz", "/assets/0/farmhand.js", "/api/v1/me", "/api/v1/openapi.json", "/api/v1/jobs?limit=2&cursor=x",
        "/api/v1/jobs/a", "/api/v1/jobs/a/next?count=5&after=2026-01-01T00:00:00Z", "/api/v1/jobs/a/revisions",
        "/api/v1/jobs/a/explain?at=2026-01-01T00:00:00Z", "/api/v1/runs?job=a&state=failed", "/api/v1/runs/1",
        "/api/v1/runs/1/flow", "/api/v1/runs/1/log?lines=10", "/api/v1/runs/1/log?from=5&limit=100&attempt=1",
        "/api/v1/runs/1/log/stream", "/api/v1/nodes?state=ready", "/api/v1/leases", "/api/v1/pools", "/api/v1/events?limit=5",
        "/api/v1/farm", "/api/v1/stream", "/act/run?job=a", "/act/drain?node=n1&deadline=10m", "/act/cancel?run=1",
        "/%2e%2e/api/v1/jobs", "//api/v1//jobs/%00", "/api/v1/jobs/a%2Fb",
    ]
    .iter()
    .map(|path| {
        format!("GET {path} HTTP/1.1\r\nHost: f\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer fh_x\r\n\r\n")
    })
    .collect();
    seeds.extend([
        json("/api/v1/jobs/a/runs?preview=true", r#"{"params":{"n":1,"t":"x"},"overlap":"skip"}"#),
        json("/api/v1/jobs/a/backfill", r#"{"from":"2026-01-01","to":"2026-01-02T00:00:00Z","max":5}"#),
        json("/api/v1/jobs/a/pause", r#"{"reason":"why"}"#),
        json("/api/v1/jobs/a/resume", ""),
        json("/api/v1/runs/1/cancel", r#"{"firing":true}"#),
        json("/api/v1/runs/1/retry", r#"{"from_failed":true}"#),
        json("/api/v1/nodes/n1/drain", r#"{"deadline":"10m"}"#),
        json("/api/v1/nodes/n1/cordon", ""),
        json("/api/v1/pools/few", r#"{"size":3}"#),
        form("/login", "token=fh_AAAA"),
        form("/act/pause", "job=a&reason=why&key=k&sure=yes"),
        form("/act/run", "job=a&p.n=1&overlap=queue&key=k"),
        "POST /login HTTP/1.1\r\nHost: f\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntoken\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: f\r\n\r\n".to_owned(),
    ]);
    seeds.into_iter().map(String::into_bytes).collect()
}

fn signatures() -> Vec<Vec<u8>> {
    texts(&[
        "# keys\nfarmhand-ed25519 alice AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n----\n\
         {\"document\":\"{\\\"job\\\":\\\"a\\\",\\\"serial\\\":1,\\\"spec\\\":{}}\",\"key\":\"alice\",\"signature\":\"AAAA\"}\n----\n\
         echo hello\n----\n\u{0}\u{3}x",
        "farmhand-ed25519-private alice AAAA\n----\n{}\n----\ntrue\n----\n\u{1}\u{0}AAAA",
    ])
}

fn conversations() -> Vec<Vec<u8>> {
    texts(&[
        "{\"seq\":1,\"request\":{\"type\":\"identify\"}}\n{\"seq\":2,\"request\":{\"type\":\"list\",\"after\":null}}",
        "{\"seq\":1,\"request\":{\"type\":\"hello\",\"protocol\":1,\"agent_pid\":5,\"expect\":null,\"address\":\"\"}}\n\
         {\"seq\":2,\"request\":{\"type\":\"set_deadline\",\"deadline_ns\":18446744073709551615,\"soft_ns\":1}}\n\
         {\"seq\":3,\"request\":{\"type\":\"forbid\",\"id\":{\"run_id\":1,\"attempt\":2}}}\n\
         {\"seq\":4,\"request\":{\"type\":\"ack\",\"id\":{\"run_id\":1,\"attempt\":1}}}\n\
         {\"seq\":5,\"request\":{\"type\":\"kill\",\"id\":{\"run_id\":2,\"attempt\":1},\"grace_ms\":18446744073709551615,\"reason\":\"cancel\"}}\n\
         {\"seq\":6,\"request\":{\"type\":\"kill_all\",\"grace_ms\":1,\"reason\":\"lease\"}}\n\
         {\"seq\":7,\"request\":{\"type\":\"heard\",\"id\":{\"run_id\":1,\"attempt\":1},\"kills\":3}}\n\
         {\"seq\":8,\"request\":{\"type\":\"list\",\"after\":{\"run_id\":1,\"attempt\":1}}}\n\
         {\"seq\":9,\"request\":{\"type\":\"spawn\",\"id\":{\"run_id\":9,\"attempt\":1},\"fence\":7,\"command\":[\"true\"],\"stdin\":\"00ff\",\
         \"secrets\":{},\"grace_ms\":1000,\"output_local\":1024,\"child_limits\":[],\"extra\":null,\"env\":{\"A\":\"b\"},\"limits\":{},\"isolation\":\"pid\"}}\n\
         {\"seq\":10,\"request\":{\"type\":\"shutdown\",\"grace_ms\":0}}\n{\"seq\":11,\"request\":{\"type\":\"identify\"}}",
        "\u{0}\u{0}\u{0}\u{2}{}",
        "\u{7f}\u{7f}\u{7f}\u{7f}rest",
    ])
}

fn errands() -> Vec<Vec<u8>> {
    texts(&[
        "{\"type\":\"connect\"}\n{\"type\":\"gone\"}\n\
         {\"type\":\"kill\",\"pid\":1}\n{\"type\":\"file\",\"purpose\":\"ping\"}\n{\"type\":\"file\",\"purpose\":\"database\"}",
        "{\"type\":\"record\",\"id\":{\"run_id\":1,\"attempt\":1},\"record\":\"tasks\"}\n\
         {\"type\":\"record\",\"id\":{\"run_id\":1,\"attempt\":2},\"record\":\"tasks\"}\n\
         {\"type\":\"record\",\"id\":{\"run_id\":1,\"attempt\":2},\"record\":\"lines\"}\n\
         {\"type\":\"mark\",\"id\":{\"run_id\":1,\"attempt\":2},\"sent\":[1,2,3,4]}\n\
         {\"type\":\"remove\",\"id\":{\"run_id\":1,\"attempt\":2}}",
        "{\"type\":\"remove\",\"id\":{\"run_id\":-1,\"attempt\":-1}}",
    ])
}

fn output() -> Vec<Vec<u8>> {
    texts(&[
        "sesame-1\nsame-1-x\n----\nopen ses sesame-1-x sesame-1sesame-1\nnext",
        "aaaaaa\naabaab\n----\naaaaaaaaabaabaabaa",
        "x\n----\n\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{9b}2J \u{202e}back\r\nover\rwritten\u{1b}[",
    ])
}

fn records() -> Vec<Vec<u8>> {
    texts(&[
        "{\"line\":7,\"at\":99,\"mark\":\"ff\",\"list\":\"0\",\"done\":\"8f\",\"tries\":\"2:1,5:2\",\"ok\":6,\"failed\":1,\"now\":[7],\"rate\":1.5,\"waits\":\"x\"}",
        "{\"item\":7,\"outcome\":\"failed\",\"failures\":3,\"line\":\"6162\",\"started_at\":null,\"ended_at\":\"2026-11-21T10:00:00Z\",\
         \"exit_code\":1,\"signal\":null,\"reason\":\"why\",\"output\":\"00\"}",
        "1h30m\n512MiB\n1w2d3ms\n99999999999999999999s\nn=-5\nd=2026-12-31\nf=1e308\nb=true\n/usr/**/bin/*=/usr/a/b/bin/id\nx=5m",
        "https://hooks.example:8443/a?b#c\nhttp://[::1]:80\nhttp://user@host/",
    ])
}
