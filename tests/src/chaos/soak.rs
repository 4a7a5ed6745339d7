//! Samples of what must stay flat for hours: memory, descriptors, tables, dead rows. Meanwhile retention has rows to delete.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::field::{Field, descriptors};
use super::lateness::Timed;

const EVERY: Duration = Duration::from_secs(10);

/// The columns of the CSV after the time, each with its unit, and how much the second half of a run may be above the first: a
/// part of it and so much more. None for what grows with the history, as it must.
const COLUMNS: [(&str, Option<(f64, f64)>); 11] = [
    ("agent memory MB", Some((0.1, 1.0))),
    ("warden memory MB", Some((0.1, 1.0))),
    ("agent descriptors", Some((0.0, 4.0))),
    ("warden descriptors", Some((0.0, 4.0))),
    ("live rows", Some((0.5, 20.0))),
    ("dead rows run_live", Some((1.0, 1_000.0))),
    ("run_live MB", Some((0.5, 1.0))),
    ("dead rows node", Some((1.0, 200.0))),
    // Each agent deletes them once an hour.
    ("rows past retention", Some((0.5, 40_000.0))),
    ("history rows", None),
    ("database MB", None),
];

/// With every sample: copies of the newest ends of runs, with attempts, output and events, ten days older than the agents keep them.
/// Put where the history of weeks without a partition is, past the triggers of what ends now.
const BACKDATE: &str = "
    CREATE TEMP TABLE old AS SELECT r.h, -(r.h).run_id AS run_id, (r.h).finished_at - interval '40 days' AS at
    FROM (SELECT h FROM farmhand.run_history h WHERE run_id > 0 ORDER BY finished_at DESC LIMIT 200) r;
    INSERT INTO farmhand.run_history_default SELECT h.* FROM old o,
        jsonb_populate_record(o.h, jsonb_build_object('run_id', o.run_id, 'job_id', 'backdated', 'finished_at', o.at)) h;
    INSERT INTO farmhand.attempt_default (run_id, job_id, attempt, address, session, fence, claimed_at, ended_at, outcome, ended_by)
        SELECT run_id, 'backdated', 1, 'n1', 1, 1, at, at, 'failed', 'holder' FROM old;
    INSERT INTO farmhand.run_log_default (run_id, attempt, seq, stream, at, stored_at, chunk)
        SELECT run_id, 1, 1, 'stdout', at, at, convert_to(repeat('line of output ', 60), 'UTF8') FROM old;
    INSERT INTO farmhand.event_default (at, kind, severity, run_id) SELECT at, 'run_failed', 'info', run_id FROM old";

type Row = (f64, [f64; COLUMNS.len()]);

/// Samples while a run goes on, and where they go.
#[derive(Clone)]
pub struct Samples {
    path: PathBuf,
    rows: Arc<Mutex<Vec<Row>>>,
}

impl Samples {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            rows: Arc::default(),
        }
    }

    /// Takes one every ten seconds, for ever. The plot beside the CSV is drawn anew each time.
    pub async fn take(self, field: &Field, of: usize) {
        let begun = Instant::now();
        // The server's own count of dead rows begins anew with each crash and failover.
        let admin = field.servers.admin().await;
        let counts = "CREATE EXTENSION IF NOT EXISTS pgstattuple; GRANT pg_stat_scan_tables TO farm";
        admin.exec(counts).await;
        drop(admin);
        loop {
            tokio::time::sleep(EVERY).await;
            if let Some(sample) = sample(field, of).await {
                let mut rows = self.rows.lock().expect("no panic under it");
                rows.push((begun.elapsed().as_secs_f64(), sample));
                let _ = std::fs::write(&self.path, csv(&rows));
                let _ = std::fs::write(self.path.with_extension("svg"), svg(&rows));
            }
        }
    }

    /// What did not stay flat, each with a sentence.
    pub fn grown(&self, begun: &[Timed]) -> Vec<String> {
        let mut grown = grown(&self.rows.lock().expect("no panic under it"));
        let [_, early, _, late] = super::lateness::quarters(begun).map(|q| q.0);
        if late > early * 2 + Duration::from_millis(100) {
            grown.push(format!(
                "from an instant to its run: {early:.1?} in the second quarter, {late:.1?} in the last"
            ));
        }
        grown
    }
}

/// The median of the last quarter against that of the second: the first is left out, in which everything settles.
fn grown(rows: &[Row]) -> Vec<String> {
    let quarter = rows.len() / 4;
    if quarter == 0 {
        return vec![format!(
            "{} samples of memory and tables are too few to judge",
            rows.len()
        )];
    }
    let median = |rows: &[Row], column: usize| {
        let mut values: Vec<f64> = rows.iter().map(|r| r.1[column]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let mut grown = Vec::new();
    for (column, (name, bound)) in COLUMNS.iter().enumerate() {
        let early = median(&rows[quarter..2 * quarter], column);
        let late = median(&rows[rows.len() - quarter..], column);
        if bound.is_some_and(|(part, more)| late > early * (1.0 + part) + more) {
            grown.push(format!(
                "{name}: {early:.1} in the second quarter, {late:.1} in the last"
            ));
        }
    }
    grown
}

/// The processes of one agent, which nothing is done to, and the sizes of tables; `None` while it or the database is away.
async fn sample(field: &Field, of: usize) -> Option<[f64; COLUMNS.len()]> {
    let client = field.client().await?;
    let sql = "SELECT (SELECT count(*) FROM farmhand.run_live)::float8,
        (SELECT dead_tuple_count FROM pgstattuple('farmhand.run_live'))::float8,
        pg_total_relation_size('farmhand.run_live')::float8 / 1048576,
        (SELECT dead_tuple_count FROM pgstattuple('farmhand.node'))::float8,
        (SELECT count(*) FROM farmhand.run_history_default) + (SELECT count(*) FROM farmhand.attempt_default)::float8
            + (SELECT count(*) FROM farmhand.run_log_default) + (SELECT count(*) FROM farmhand.event_default),
        (SELECT count(*) FROM farmhand.run_history)::float8,
        pg_database_size(current_database())::float8 / 1048576";
    let rows = async {
        client.batch_execute(BACKDATE).await.ok()?;
        client.query_one(sql, &[]).await.ok()
    };
    let row = tokio::time::timeout(Duration::from_secs(5), rows).await.ok()??;
    let mut found = [0.0_f64; COLUMNS.len()];
    {
        let agent = field.sites[of].agent.try_lock().ok()?;
        let own: Vec<i32> = agent.is_running().then(|| agent.pid()).into_iter().collect();
        let wardens = agent.wardens().into_iter().map(|w| w.pid).collect::<Vec<_>>();
        for (pids, memory, open) in [(own, 0, 2), (wardens, 1, 3)] {
            for pid in pids {
                found[memory] = found[memory].max(resident_mb(pid));
                found[open] = found[open].max(descriptors(pid) as f64);
            }
        }
    }
    for (column, place) in found.iter_mut().skip(4).enumerate() {
        *place = row.get::<_, Option<f64>>(column)?;
    }
    Some(found)
}

/// Private and shared pages of a process that are in memory.
fn resident_mb(pid: i32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}

fn csv(rows: &[Row]) -> String {
    let mut text = format!("seconds,{}\n", COLUMNS.map(|(name, _)| name).join(","));
    for (at, values) in rows {
        let values: Vec<String> = values.iter().map(|v| format!("{v:.2}")).collect();
        let _ = writeln!(text, "{at:.0},{}", values.join(","));
    }
    text
}

/// A small graph per column, each from zero to its own largest value.
fn svg(rows: &[Row]) -> String {
    const WIDTH: f64 = 420.0;
    const HEIGHT: f64 = 90.0;
    let end = rows.last().map_or(1.0, |r| r.0.max(1.0));
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 940 880\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"940\" height=\"880\" fill=\"white\"/>\n",
    );
    for (column, (name, _)) in COLUMNS.iter().enumerate() {
        let (left, top) = (
            20.0 + (column % 2) as f64 * 460.0,
            30.0 + (column / 2) as f64 * 140.0,
        );
        let most = rows.iter().map(|r| r.1[column]).fold(0.0, f64::max);
        let scale = if most > 0.0 { HEIGHT / most } else { 0.0 };
        let points: Vec<String> = (rows.iter())
            .map(|(at, values)| {
                let (x, y) = (left + at / end * WIDTH, top + HEIGHT - values[column] * scale);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let _ = writeln!(
            out,
            "<text x=\"{left}\" y=\"{}\">{name}: at most {most:.1}, over {:.0} min</text>\n\
             <rect x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#ccc\"/>\n\
             <polyline points=\"{}\" fill=\"none\" stroke=\"#2266aa\"/>",
            top - 6.0,
            end / 60.0,
            points.join(" ")
        );
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(agent_memory: impl Fn(usize) -> f64) -> Vec<Row> {
        let row = |n: usize| {
            let mut values = [10.0; COLUMNS.len()];
            values[0] = agent_memory(n);
            // It grows for good.
            values[9] = n as f64 * 100.0;
            (n as f64, values)
        };
        (0..100).map(row).collect()
    }

    #[test]
    fn what_stays_flat_passes_also_with_a_slow_start_and_a_peak() {
        let slow = |n: usize| if n < 25 { 5.0 } else { 20.0 };
        assert_eq!(grown(&steady(slow)), Vec::<String>::new());
        let peak = |n: usize| if n == 90 { 500.0 } else { 20.0 };
        assert_eq!(grown(&steady(peak)), Vec::<String>::new());
    }

    #[test]
    fn what_grows_with_every_sample_is_said_and_too_few_are_no_verdict() {
        let found = grown(&steady(|n| 20.0 + n as f64 * 0.1));
        assert_eq!(
            found,
            ["agent memory MB: 23.7 in the second quarter, 28.7 in the last"]
        );
        assert_eq!(grown(&steady(|_| 20.0)[..3]).len(), 1);
    }
}
