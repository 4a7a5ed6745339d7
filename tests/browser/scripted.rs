//! A script of Node with a farm behind it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use farmhand_tests::farm::Farm;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

/// Longest scenario.
const BOUND: Duration = Duration::from_secs(270);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where `./test` put what the scripts load.
///
/// # Panics
/// When it is not there, with how to get it.
fn tools() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let tools = std::path::absolute(target.join("browser-tools")).expect("a path");
    assert!(
        tools.join("node_modules/playwright-core").exists() && tools.join("node_modules/axe-core").exists(),
        "{} is missing: `./test` makes it with npm ci from tests/browser/package-lock.json; it needs Debian's \
         packages chromium, nodejs (20 or newer) and npm",
        tools.display()
    );
    tools
}

/// Runs `NAME.mjs` to its end; the browser talks to the last agent.
///
/// # Panics
/// When the script fails, with what it said.
pub async fn run(farm: &mut Farm, name: &str) {
    let told = farm.ok(&["token", "create", "browser", "--role", "admin"]);
    let token = told.split_whitespace().find(|word| word.starts_with("fh_"));
    let port = farm.agents.last().expect("an agent").port;
    let mut command = Command::new("node");
    command
        .arg(root().join("tests/browser").join(format!("{name}.mjs")))
        .env("BROWSER_TOOLS", tools())
        .env("BASE", format!("http://127.0.0.1:{port}"))
        .env("TOKEN", token.expect("a token"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    if std::env::var_os("FARMHAND_SCREENSHOTS").is_some() {
        command.env("SHOTS", root().join("docs/screenshots"));
        command.env("ALL_SHOTS", tools().with_file_name("screenshots"));
    }
    let mut script = command
        .spawn()
        .expect("node starts: Debian has it in the package nodejs");
    let mut answers = script.stdin.take().expect("piped");
    let mut lines = BufReader::new(script.stdout.take().expect("piped")).lines();
    let talk = async {
        while let Some(line) = lines.next_line().await.expect("its output") {
            match line.strip_prefix('@') {
                Some(wish) => {
                    let answer = grant(farm, wish).await;
                    let line = format!("{answer}\n");
                    answers.write_all(line.as_bytes()).await.expect("it listens");
                }
                None => println!("{line}"),
            }
        }
        script.wait().await.expect("its end")
    };
    let status = tokio::time::timeout(BOUND, talk).await.expect("in time");
    assert!(status.success(), "{name}.mjs: {status}");
}

/// Does what a script cannot.
async fn grant(farm: &mut Farm, wish: &str) -> String {
    let (verb, about) = wish.split_once(' ').unwrap_or((wish, ""));
    let number = || about.parse::<i64>().expect("the number of a run");
    match verb {
        "submit" => farm.submit(about).await.to_string(),
        "finished" => {
            let run = farm.submit(about).await;
            farm.over(run, Duration::from_secs(90)).await;
            run.to_string()
        }
        "done" => {
            let sql = format!(
                "SELECT max(run_id) FROM farmhand.run WHERE job_id = '{about}' AND state = 'succeeded'"
            );
            farm.value::<i64>(&sql).await.to_string()
        }
        "fail" => {
            let failed = "INSERT INTO farmhand.job_stat (job_id, consecutive_failures) VALUES ($1, 3)
                ON CONFLICT (job_id) DO UPDATE SET consecutive_failures = 3";
            farm.sql.exec_with(failed, &[&about]).await;
            "failed".to_owned()
        }
        "queue" => {
            let (count, job) = about.split_once(' ').expect("a count and a job");
            let sql = format!(
                "INSERT INTO farmhand.run_live (job_id, rev, kind, instance, due_at, ready_at)
                 SELECT '{job}', 1, 'submitted', 0, now(), 'infinity' FROM generate_series(1, {count})"
            );
            farm.exec(&sql).await;
            "queued".to_owned()
        }
        "due" => {
            let sql = format!("SELECT count(*) FROM farmhand.run WHERE job_id = '{about}' AND state = 'due'");
            farm.value::<i64>(&sql).await.to_string()
        }
        "slow" => farm
            .ok(&["job", "run", about, "-p", "seconds=600"])
            .trim()
            .to_owned(),
        // 85 nights of which some went wrong, in every way.
        "past" => {
            let sql = format!(
                "WITH made AS (INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, \
                 state, reason, ended_by, attempt, retries, takeovers, params, created_at, started_at, finished_at, first_due, \
                 last_due) \
                 SELECT -n, '{about}', 1, 'scheduled', 0, 1, t, t, s, CASE s WHEN 'skipped' THEN 'missed' END, 'holder', 1, 0, 0, \
                 '{{}}', t, CASE WHEN s <> 'skipped' THEN b END, b + (60 + n * 7 % 11 + CASE n WHEN 40 THEN 900 ELSE 0 END) \
                 * interval '1 s', t, t FROM generate_series(1, 85) n, \
                 LATERAL (SELECT date_trunc('day', now()) - n * interval '1 day' + interval '2 h') x(t), \
                 LATERAL (SELECT t + CASE WHEN n % 17 = 0 THEN interval '5 min' ELSE interval '1 s' END) y(b), \
                 LATERAL (SELECT CASE WHEN n % 23 = 0 THEN 'failed' WHEN n % 31 = 0 THEN 'lost' WHEN n % 29 = 0 THEN 'skipped' \
                 WHEN n % 37 = 0 THEN 'cancelled' WHEN n = 50 THEN 'timed_out' ELSE 'succeeded' END) z(s) RETURNING 1) \
                 SELECT count(*) FROM made"
            );
            farm.value::<i64>(&sql).await.to_string()
        }
        "runs" => farm.runs(about).await.len().to_string(),
        "holder" => farm.run(number()).await.running_at.unwrap_or_default(),
        "fence" => farm.run(number()).await.fence.unwrap_or(0).to_string(),
        "kill" => {
            farm.agent(about).kill();
            "killed".to_owned()
        }
        // It is lost and comes back, three times.
        "flap" => {
            for _ in 0..3 {
                farm.agent(about).kill();
                let lost = format!("SELECT lost_at IS NOT NULL FROM farmhand.node WHERE address = '{about}'");
                farm.eventually("it is lost", Duration::from_secs(60), async || {
                    let lost: bool = farm.value(&lost).await;
                    lost.then_some(()).ok_or("not yet".to_owned())
                })
                .await;
                let agent = farm.agents.iter_mut().find(|agent| agent.address == about);
                agent.expect("an agent of the farm").start().await;
            }
            "flapped".to_owned()
        }
        // It succeeds and fails by turns.
        "turns" => {
            for code in ["code=0", "code=1", "code=0", "code=1", "code=0"] {
                let told = farm.ok(&["job", "run", about, "-p", code]);
                let run = told.trim().parse().expect("the number of the run");
                farm.over(run, Duration::from_secs(90)).await;
            }
            "turned".to_owned()
        }
        "state" => farm.run(number()).await.state,
        "start" => {
            let agent = farm.agents.iter_mut().find(|agent| agent.address == about);
            agent.expect("an agent of the farm").start().await;
            "started".to_owned()
        }
        "cut" | "fix" => {
            for agent in &farm.agents {
                if verb == "cut" {
                    agent.proxy().cut();
                } else {
                    agent.proxy().heal();
                }
            }
            verb.to_owned()
        }
        other => panic!("a script asks for {other}"),
    }
}
