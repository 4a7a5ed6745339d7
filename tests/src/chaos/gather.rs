//! Collects what the oracle judges: witness files, records, what is left.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tokio_postgres::{Client, Row as SqlRow};

use super::field::{Field, descriptors};
use super::jobs;
use super::oracle::{self, Done, Row};
use super::targets::Record;
use crate::witness::{Seen, What, boot_ns, parse};

/// Follows the witness files of a farm, and keeps of a row of beats the last.
#[derive(Default)]
pub struct Reader {
    read: BTreeMap<PathBuf, u64>,
    lines: Vec<Seen>,
    /// Where the latest line of a run is.
    latest: BTreeMap<i64, usize>,
}

impl Reader {
    /// Everything written so far.
    pub fn read(&mut self, dir: &Path) -> &[Seen] {
        let files = std::fs::read_dir(dir).expect("the witness directory");
        let mut files: Vec<PathBuf> = files.flatten().map(|e| e.path()).collect();
        files.sort();
        for path in files {
            self.follow(&path);
        }
        &self.lines
    }

    fn follow(&mut self, path: &Path) {
        let from = self.read.get(path).copied().unwrap_or(0);
        let mut file = File::open(path).expect("a witness file");
        file.seek(SeekFrom::Start(from)).expect("a witness file");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("a witness file");
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for line in text[..whole].lines() {
            let seen = parse(line).unwrap_or_else(|| panic!("{}: {line:?}", path.display()));
            self.enter(seen);
        }
        self.read.insert(path.to_path_buf(), from + whole as u64);
    }

    fn enter(&mut self, seen: Seen) {
        if let Some(at) = self.latest.get(&seen.run) {
            let before = &mut self.lines[*at];
            let beats = before.what == What::Beat && seen.what == What::Beat;
            if beats && (before.attempt, before.fence) == (seen.attempt, seen.fence) {
                before.at = before.at.max(seen.at);
                return;
            }
        }
        self.latest.insert(seen.run, self.lines.len());
        self.lines.push(seen);
    }
}

/// The records of all jobs of the suite.
pub struct Records {
    pub rows: Vec<Row>,
    pub scheduled: Vec<Record>,
}

/// Reads every record, with the beginnings that the witness saw. Lateness is judged (`began`) only where nothing
/// makes a run wait and the database was there.
///
/// # Errors
/// Those of the database.
pub async fn records(
    client: &Client,
    lines: &[Seen],
    done: &[Done],
) -> Result<Records, tokio_postgres::Error> {
    let names: Vec<&str> = jobs::names().collect();
    let sql =
        "SELECT run_id, job_id, state, attempt, fence, exit_code, reason, takeovers, kind, instance, node,
                      first_due, last_due, count
               FROM farmhand.run WHERE job_id = ANY($1) ORDER BY run_id";
    let found = client.query(sql, &[&names]).await?;
    let lives = oracle::lives(lines);
    let prompt: Vec<String> = (jobs::kinds().into_iter().filter(|k| k.prompt))
        .map(|k| k.job)
        .collect();
    let began = |job: &String, run: i64| {
        let first = lives.get(&run)?.values().next()?.first;
        (prompt.contains(job) && !near_a_database_fault(first, done)).then(|| wall(first))
    };
    let scheduled = found.iter().filter(|r| r.get::<_, &str>(8) == "scheduled");
    Ok(Records {
        rows: found.iter().map(row).collect(),
        scheduled: scheduled
            .map(|r| {
                let (run, job): (i64, String) = (r.get(0), r.get(1));
                Record {
                    run,
                    began: began(&job, run),
                    job,
                    instance: r.get(9),
                    node: r.get(10),
                    state: r.get(2),
                    reason: r.get(6),
                    first_due: r.get(11),
                    last_due: r.get(12),
                    count: r.get(13),
                }
            })
            .collect(),
    })
}

fn row(r: &SqlRow) -> Row {
    Row {
        run: r.get(0),
        job: r.get(1),
        state: r.get(2),
        attempt: r.get(3),
        fence: r.get(4),
        exit_code: r.get(5),
        reason: r.get(6),
        takeovers: r.get(7),
    }
}

/// What was due while the database was away begins when it is back.
fn near_a_database_fault(at: u64, done: &[Done]) -> bool {
    let after = 30_000_000_000;
    let near = |d: &Done| d.database && d.from <= at && at <= d.to + after;
    done.iter().any(near)
}

/// An instant of CLOCK_BOOTTIME by the wall clock of this machine.
pub fn wall(boot: u64) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let since_boot = Duration::from_nanos(boot_ns());
    let at = now - since_boot + Duration::from_nanos(boot);
    Timestamp::from_nanosecond(i128::try_from(at.as_nanos()).expect("this millennium"))
        .expect("this millennium")
}

/// What a farm at rest holds on to; compared between its beginning and its end.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    pub descriptors: BTreeMap<String, usize>,
    pub sessions: i64,
}

/// Counts descriptors of agents and sessions of the database.
pub async fn holdings(field: &Field, client: &Client) -> Holdings {
    let mut found = Holdings::default();
    for site in &field.sites {
        let agent = site.agent.lock().await;
        if agent.is_running() {
            found
                .descriptors
                .insert(site.name.clone(), descriptors(agent.pid()));
        }
    }
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'farm' AND pid <> pg_backend_pid()";
    if let Ok(row) = client.query_one(sql, &[]).await {
        found.sessions = row.get(0);
    }
    found
}

/// Everything that should not be there any more, each with a sentence.
pub async fn left(field: &Field, client: &Client, before: &Holdings) -> Vec<String> {
    let mut left = Vec::new();
    let now = holdings(field, client).await;
    for (name, count) in &now.descriptors {
        let first = before.descriptors.get(name).copied().unwrap_or(*count);
        if *count > first + 10 {
            left.push(format!("{name} has {count} descriptors open, {first} at first"));
        }
    }
    let some = i64::try_from(field.sites.len()).expect("a few agents");
    if now.sessions > before.sessions + some {
        left.push(format!("{} sessions, {} at first", now.sessions, before.sessions));
    }
    let of_a_run =
        |p: &&crate::processes::Process| p.environment.iter().any(|e| e.starts_with("FARMHAND_RUN="));
    let processes = field.processes();
    for process in processes.iter().filter(of_a_run) {
        left.push(format!("process {} of a run: {}", process.pid, process.command));
    }
    let nodes = format!("SELECT count(*) - {some} FROM farmhand.node");
    for (what, sql) in [
        ("live runs", "SELECT count(*) FROM farmhand.run_live"),
        ("nodes too many", nodes.as_str()),
        (
            "checkpoints without a run",
            "SELECT count(*) FROM farmhand.progress p WHERE NOT EXISTS
             (SELECT FROM farmhand.run_live r WHERE r.run_id = p.run_id)",
        ),
        ("unsettled triggers", "SELECT count(*) FROM farmhand.triggering"),
        ("unwritten results", "SELECT count(*) FROM farmhand.row_result"),
        (
            "prepared or idle transactions",
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'farm' AND state LIKE 'idle in transaction%'
             AND state_change < now() - interval '20 s'",
        ),
    ] {
        match client.query_one(sql, &[]).await {
            Ok(row) => {
                let count: i64 = row.get(0);
                if count != 0 {
                    left.push(format!("{count} {what}"));
                }
            }
            Err(e) => left.push(format!("{what}: {e}")),
        }
    }
    left
}
