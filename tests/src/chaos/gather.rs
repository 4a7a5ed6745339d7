//! Collects what the oracle judges: witness files and records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::pg::Client;
use jiff::Timestamp;
use tokio_postgres::Row as SqlRow;

use super::field::Field;
use super::jobs;
use super::oracle::{self, OTHER, Row};
use super::targets::{Began, Record};
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
        parse(&text[..whole]).for_each(|seen| self.enter(seen));
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

/// Reads every record, with the beginnings that the witness saw.
///
/// # Errors
/// Those of the database.
pub async fn records(
    client: &Client,
    lines: &[Seen],
    clocks: &Clocks,
) -> Result<Records, tokio_postgres::Error> {
    let names: Vec<&str> = jobs::names().collect();
    let sql =
        "SELECT run_id, job_id, state, attempt, fence, exit_code, reason, takeovers, kind, instance, node,
                      first_due, last_due, count, running_at, signal, finished_at, idempotency_key
               FROM farmhand.run WHERE job_id = ANY($1) ORDER BY run_id";
    let found = client.query(sql, &[&names]).await?;
    let lives = oracle::lives(lines);
    let began = |run: i64| {
        let (attempt, life) = lives.get(&run)?.iter().next()?;
        Some(Began {
            at: clocks.wall(life.first),
            node: life.node.clone(),
            attempt: *attempt,
        })
    };
    let lived_on = |run: i64| {
        let lives = lives.get(&run).into_iter().flat_map(BTreeMap::values);
        lives.map(|life| life.node.clone()).collect()
    };
    let scheduled = found.iter().filter(|r| r.get::<_, &str>(8) == "scheduled");
    Ok(Records {
        rows: found.iter().map(|r| row(r, clocks)).collect(),
        scheduled: scheduled
            .map(|r| {
                let (run, job): (i64, String) = (r.get(0), r.get(1));
                Record {
                    run,
                    began: began(run),
                    attempts: r.get(3),
                    lived_on: lived_on(run),
                    finished: r.get(16),
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

fn row(r: &SqlRow, clocks: &Clocks) -> Row {
    Row {
        run: r.get(0),
        job: r.get(1),
        state: r.get(2),
        attempt: r.get(3),
        fence: r.get(4),
        exit_code: r.get(5),
        reason: r.get(6),
        takeovers: r.get(7),
        running_at: r.get(14),
        signal: r.get(15),
        finished_at: r.get::<_, Option<Timestamp>>(16).map(|at| clocks.boot(at)),
        idempotency_key: r.get(17),
    }
}

/// Whose labels changed when, by the database's clock.
pub fn relabelled(field: &Field, clocks: &Clocks) -> Vec<(String, Timestamp)> {
    let changed = field.relabelled.lock().expect("no panic under it");
    changed
        .iter()
        // Also under the other address that it has at times: its label is the same.
        .flat_map(|(node, at)| [node.clone(), format!("{node}{OTHER}")].map(|name| (name, clocks.wall(*at))))
        .collect()
}

/// CLOCK_BOOTTIME and the wall clock of this machine, which is the database's too. While a plan goes on the second may be set
/// or slewed, so both are read again and again, and an instant is told by the reading before it.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    readings: Vec<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    boot: u64,
    /// What the wall clock said when the other one began, in nanoseconds.
    booted: i128,
}

/// Readings that differ by less are one.
const SAME: Duration = Duration::from_millis(1);

impl Clocks {
    /// Reads both, and keeps what is new.
    pub fn read(&mut self) {
        // Of several readings the closest: a thread may be made to wait between two clocks.
        let reading = |_| {
            let before = boot_ns();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let between = boot_ns() - before;
            let now = i128::try_from(now.as_nanos()).expect("this millennium");
            (between, before, now - i128::from(before + between / 2))
        };
        let (_, boot, booted) = (0..8).map(reading).min().expect("several readings");
        self.note(boot, booted);
    }

    /// That the wall clock said `booted` when the other one began, as seen at an instant of the other one.
    pub fn note(&mut self, boot: u64, booted: i128) {
        let same = |last: &Reading| last.booted.abs_diff(booted) < SAME.as_nanos();
        if !self.readings.last().is_some_and(same) {
            self.readings.push(Reading { boot, booted });
        }
    }

    fn booted(&self, is_before: impl Fn(&&Reading) -> bool) -> i128 {
        let before = self.readings.iter().rev().find(is_before);
        before
            .or(self.readings.first())
            .map_or(0, |reading| reading.booted)
    }

    /// An instant of CLOCK_BOOTTIME by the wall clock.
    pub fn wall(&self, boot: u64) -> Timestamp {
        let booted = self.booted(|reading| reading.boot <= boot);
        Timestamp::from_nanosecond(booted + i128::from(boot)).expect("this millennium")
    }

    /// And back.
    pub fn boot(&self, wall: Timestamp) -> u64 {
        let wall = wall.as_nanosecond();
        let booted = self.booted(|reading| reading.booted + i128::from(reading.boot) <= wall);
        u64::try_from(wall - booted).unwrap_or(0)
    }
}
