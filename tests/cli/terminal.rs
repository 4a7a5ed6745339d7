//! What a terminal gets, and what a program gets instead: widths, progress, JSON, `top`.

use std::collections::BTreeSet;
use std::time::Duration;

use farmhand_tests::wait::eventually;
use serde_json::Value;

use super::farm::ran;
use super::pty::Pty;
use super::shell::{leaves, lively};

#[tokio::test(flavor = "multi_thread")]
async fn every_command_answers_a_program_in_json() {
    let mut farm = lively().await;
    let dir = farm.dir.path().to_str().unwrap().to_owned();
    let dir = dir.as_str();
    let jobs = farm.dir.path().join("jobs.toml");
    let jobs = jobs.to_str().unwrap();
    let crontab = farm.file("tab", "0 4 * * * true\n");
    let timer = farm.file("x.timer", "[Timer]\nOnCalendar=daily\n");
    farm.file("x.service", "[Service]\nExecStart=/bin/true\n");
    let manifest = farm.file("x.yaml", "kind: Service\n");
    let (timer, manifest) = (timer.to_str().unwrap(), manifest.to_str().unwrap());
    let tasks = farm.file("flow.tsort", "a b\n");
    let man = farm.dir.path().join("man");
    let names = farm.dir.path().join("names");
    let names = names.to_str().unwrap();
    let key = farm.dir.path().join("key");
    let key = key.to_str().unwrap();
    let (crontab, tasks, man) = (
        crontab.to_str().unwrap(),
        tasks.to_str().unwrap(),
        man.to_str().unwrap(),
    );
    // In an order in which each finds what it needs.
    let calls: Vec<(&str, Vec<&str>)> = vec![
        ("job apply", vec![jobs]),
        ("key new", vec!["k", "-o", key]),
        ("key public", vec![key]),
        ("job sign", vec![jobs, "--key", key]),
        ("job diff", vec![jobs]),
        ("job ls", vec![]),
        ("job export", vec!["done"]),
        ("job show", vec!["done"]),
        ("job run", vec!["stuck"]),
        ("job pause", vec!["done", "--reason", "a test"]),
        ("job resume", vec!["done"]),
        ("job rollback", vec!["done", "1"]),
        (
            "job backfill",
            vec!["done", "--from", "2026-01-01", "--to", "2026-01-02", "--dry-run"],
        ),
        ("job history", vec!["done"]),
        ("run ls", vec![]),
        ("run show", vec!["1"]),
        ("run logs", vec!["1"]),
        ("run items", vec!["1"]),
        ("run cancel", vec!["2"]),
        ("run retry", vec!["1"]),
        ("node ls", vec![]),
        ("node show", vec!["n1"]),
        ("node cordon", vec!["n1"]),
        ("node drain", vec!["n1"]),
        ("node resume", vec!["n1"]),
        ("lease ls", vec![]),
        ("pool ls", vec![]),
        ("pool set", vec!["few", "3"]),
        ("token create", vec!["ci", "--role", "viewer"]),
        ("token ls", vec![]),
        ("token revoke", vec!["ci"]),
        ("notify ls", vec![]),
        ("notify test", vec!["ops", "--timeout", "0s"]),
        ("lease release", vec!["n1", "--force", "--confirm", "n1"]),
        ("node rm", vec!["n1"]),
        ("flow plan", vec!["--edges", tasks]),
        ("flow init", vec![names, "db"]),
        ("flow graph", vec!["--edges", tasks]),
        ("status", vec![]),
        ("top", vec![]),
        ("migrate", vec![]),
        ("doctor", vec!["--state-dir", dir]),
        ("events", vec![]),
        ("explain job", vec!["stuck"]),
        ("explain run", vec!["1"]),
        ("next", vec!["done"]),
        ("job rm", vec!["done", "--yes"]),
        ("import crontab", vec![crontab]),
        ("import systemd", vec![timer]),
        ("import k8s", vec![manifest]),
        ("job check", vec![jobs]),
        ("completion", vec!["bash"]),
        ("man", vec![man]),
        ("epoch", vec![]),
        ("epoch bump", vec!["--yes"]),
    ];
    for (words, args) in &calls {
        // Its agent, whose lease was released, comes back with a new one as long as it lives.
        if *words == "node rm" {
            farm.stop_agents();
        }
        let ran = ran(farm.command().args(words.split(' ')).args(args).arg("--json"));
        let lines: Result<Vec<Value>, _> = ran.out.lines().map(serde_json::from_str).collect();
        assert!(
            lines.is_ok_and(|lines| !lines.is_empty()),
            "{words} --json: {ran:#?}"
        );
    }
    // Those that go on, and those called from inside a job.
    let elsewhere = [
        "agent",
        "dev",
        "flow run",
        "flow wait",
        "flow mark",
        "progress",
        "workers",
        "lock",
        // On a farm with a stream.
        "run replay",
        // With a log of cron.
        "import verify",
    ];
    let tried: BTreeSet<String> = calls.iter().map(|(words, _)| (*words).to_owned()).collect();
    let untried: Vec<String> = leaves()
        .into_iter()
        .filter(|words| !tried.contains(words) && !elsewhere.contains(&words.as_str()))
        .collect();
    assert!(untried.is_empty(), "never asked for JSON here: {untried:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn top_without_a_terminal_is_one_snapshot() {
    let farm = lively().await;
    let ran = farm.run(&["top"]).ok();
    for part in [
        "NODES 1",
        "n1",
        "RUNNING 0",
        "stuck",
        "for a node",
        "NEXT",
        "done",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "{:?}", ran.out);
    let json = farm.run(&["top", "--json"]).json();
    assert_eq!(json["nodes"][0]["address"], "n1");
    assert_eq!(json["queue"][0]["job_id"], "stuck");
    farm.run(&["top", "--every", "100ms"]).refused(2, &["1s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn top_on_a_terminal_is_drawn_again_and_leaves_with_q() {
    let farm = lively().await;
    let mut top = Pty::start(&farm, 80, &["top", "--every", "1s"]);
    eventually("the first drawing", Duration::from_secs(20), || {
        let seen = top.look();
        if seen.contains("NODES") { Ok(()) } else { Err(seen) }
    });
    farm.run(&["node", "cordon", "n1"]).ok();
    eventually(
        "a later drawing shows the change",
        Duration::from_secs(20),
        || {
            let seen = top.look();
            seen.contains("cordoned").then_some(()).ok_or(seen)
        },
    );
    top.press("q");
    let (code, seen) = top.end();
    assert_eq!(code, Some(0), "{seen}");
    // Back from the other screen, with the cursor.
    assert!(seen.trim_end().ends_with("\u{1b}[?25h\u{1b}[?1049l"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_fold_to_the_terminal_and_what_they_leave_out_is_told() {
    let farm = lively().await;
    farm.apply(
        "[job.a-job-with-a-rather-long-name]\ncommand = 'true'\nschedule = ['0 3 * * MON-FRI', '30 12 * * SAT,SUN']\n
         timezone = 'America/Argentina/Buenos_Aires'\n",
    );
    for columns in [40_u16, 80, 120] {
        for args in [
            &["job", "ls"][..],
            &["run", "ls"],
            &["run", "show", "1"],
            &["node", "ls"],
            &["node", "show", "n1"],
            &["lease", "ls"],
            &["status"],
            &["explain", "job", "stuck"],
            &["next"],
            &["job", "show", "done"],
        ] {
            let (code, seen) = Pty::start(&farm, columns, args).end();
            assert_eq!(code, Some(0), "{args:?}: {seen}");
            if matches!(args[0], "job" | "run" | "node" | "lease") && args[1] == "ls" {
                let plain = without_colors(&seen);
                let mut lines = plain.lines().filter(|l| !l.starts_with("left out: "));
                let wide = lines.find(|l| l.trim_end().chars().count() > usize::from(columns));
                assert_eq!(wide, None, "{args:?} at {columns} columns:\n{seen}");
                assert!(!seen.contains('…'), "{seen}");
            }
            eprintln!("--- {args:?} at {columns}\n{seen}");
        }
    }
    let (_, seen) = Pty::start(&farm, 80, &["job", "ls"]).end();
    assert!(seen.contains("left out: SOURCE"), "{seen}");
    assert!(seen.contains("\u{1b}[38;5;"), "states have a colour: {seen:?}");
    let piped = farm.run(&["job", "ls"]).ok();
    assert!(
        piped.out.contains("SOURCE") && !piped.out.contains('\u{1b}'),
        "{piped:?}"
    );
}

/// What a terminal shows of this.
fn without_colors(seen: &str) -> String {
    let mut parts = seen.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| {
        plain + part.split_once('m').map_or(part, |(_, text)| text)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_shown_on_a_terminal_only_and_goes_away() {
    let farm = lively().await;
    let args = ["job", "run", "stuck", "--wait-timeout", "1500ms"];
    let (code, seen) = Pty::start(&farm, 80, &args).end();
    assert_eq!(code, Some(124), "{seen}");
    assert!(seen.contains("is due"), "{seen:?}");
    assert!(seen.contains("\r\u{1b}[K"), "it is taken away: {seen:?}");
    let plain = farm.run(&args);
    assert!(
        !plain.err.contains('\r') && !plain.err.contains('\u{1b}'),
        "{plain:?}"
    );
}
