//! Samples of what must stay flat for hours: memory, descriptors, tables, dead rows.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::field::{Field, descriptors};

const EVERY: Duration = Duration::from_secs(10);

/// The columns of the CSV after the time, each with its unit.
const COLUMNS: [&str; 10] = [
    "agent memory MB",
    "warden memory MB",
    "agent descriptors",
    "warden descriptors",
    "live rows",
    "dead rows run_live",
    "run_live MB",
    "dead rows node",
    "history rows",
    "database MB",
];

/// Where samples go.
pub struct Samples {
    path: PathBuf,
}

impl Samples {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Takes one every ten seconds, for ever. The plot beside the CSV is drawn anew each time.
    pub async fn take(self, field: &Field) {
        let begun = Instant::now();
        let mut rows: Vec<(f64, [f64; COLUMNS.len()])> = Vec::new();
        loop {
            tokio::time::sleep(EVERY).await;
            if let Some(sample) = sample(field).await {
                rows.push((begun.elapsed().as_secs_f64(), sample));
                let _ = std::fs::write(&self.path, csv(&rows));
                let _ = std::fs::write(self.path.with_extension("svg"), svg(&rows));
            }
        }
    }
}

/// The largest of each kind of process, and the sizes of tables; `None` while the database is away.
async fn sample(field: &Field) -> Option<[f64; COLUMNS.len()]> {
    let client = field.client().await?;
    let sql = "SELECT (SELECT count(*) FROM farmhand.run_live)::float8,
        (SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'farmhand' AND relname = 'run_live')::float8,
        pg_total_relation_size('farmhand.run_live')::float8 / 1048576,
        (SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'farmhand' AND relname = 'node')::float8,
        (SELECT count(*) FROM farmhand.run_history)::float8,
        pg_database_size(current_database())::float8 / 1048576";
    let row = tokio::time::timeout(Duration::from_secs(5), client.query_one(sql, &[]))
        .await
        .ok()?
        .ok()?;
    let mut found = [0.0_f64; COLUMNS.len()];
    for site in &field.sites {
        let Ok(agent) = site.agent.try_lock() else {
            continue;
        };
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
        *place = row.get::<_, Option<f64>>(column).unwrap_or(0.0);
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

fn csv(rows: &[(f64, [f64; COLUMNS.len()])]) -> String {
    let mut text = format!("seconds,{}\n", COLUMNS.join(","));
    for (at, values) in rows {
        let values: Vec<String> = values.iter().map(|v| format!("{v:.2}")).collect();
        let _ = writeln!(text, "{at:.0},{}", values.join(","));
    }
    text
}

/// A small graph per column, each from zero to its own largest value.
fn svg(rows: &[(f64, [f64; COLUMNS.len()])]) -> String {
    const WIDTH: f64 = 420.0;
    const HEIGHT: f64 = 90.0;
    let end = rows.last().map_or(1.0, |r| r.0.max(1.0));
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 940 740\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"940\" height=\"740\" fill=\"white\"/>\n",
    );
    for (column, name) in COLUMNS.iter().enumerate() {
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
