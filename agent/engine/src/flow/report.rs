//! After the run: what ended how, the critical path as it was, and a chart of it.

use std::fmt::Write;
use std::time::Duration;

use farmhand_core::flow::{End, Task};
use farmhand_core::graph::Graph;

use super::rundir::RunDir;
use super::signals::Exit;

/// What became of a task. Times since the flow began.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Of its first try.
    pub started: Option<Duration>,
    /// Of its last one.
    pub ended: Option<Duration>,
    pub exit: Option<Exit>,
    pub end: Option<End>,
    pub reason: Option<String>,
}

impl Record {
    pub fn duration(&self) -> Option<Duration> {
        Some(self.ended?.saturating_sub(self.started?))
    }
}

#[derive(Debug)]
pub struct Report {
    pub records: Vec<Record>,
    pub elapsed: Duration,
    pub interrupted: bool,
    pub trouble: Option<String>,
    pub dir: RunDir,
}

impl Report {
    /// Whether nothing went wrong.
    pub fn is_good(&self) -> bool {
        let good = |r: &Record| r.end.as_ref().is_some_and(End::is_good);
        !self.interrupted && self.trouble.is_none() && self.records.iter().all(good)
    }

    fn count(&self, which: impl Fn(&End) -> bool) -> usize {
        self.records
            .iter()
            .filter(|r| r.end.as_ref().is_some_and(&which))
            .count()
    }

    /// One sentence.
    pub fn summary(&self) -> String {
        let kinds = [
            ("succeeded", self.count(|e| *e == End::Succeeded)),
            ("failed", self.count(|e| matches!(e, End::Failed { .. }))),
            ("timed out", self.count(|e| *e == End::TimedOut)),
            ("skipped", self.count(|e| *e == End::Skipped)),
            ("cancelled", self.count(|e| *e == End::Cancelled)),
            ("left out", self.count(|e| *e == End::LeftOut)),
            ("done earlier", self.count(|e| *e == End::Done)),
        ];
        let kinds = kinds
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(what, n)| format!("{n} {what}"));
        format!(
            "{} in {}",
            kinds.collect::<Vec<_>>().join(", "),
            seconds(self.elapsed)
        )
    }

    /// How close the run came to its critical path, and which that was.
    pub fn critical(&self, tasks: &[Task], graph: &Graph) -> Option<String> {
        let path = graph.critical_path(&graph.order()?, |t| {
            self.records[t].duration().unwrap_or_default()
        });
        if path.length.is_zero() {
            return None;
        }
        let over = (self.elapsed.as_secs_f64() / path.length.as_secs_f64() - 1.0) * 100.0;
        let names: Vec<_> = path.tasks.iter().map(|t| tasks[*t].name()).collect();
        let length = seconds(path.length);
        Some(format!(
            "critical path {length} ({over:+.1} %): {}",
            names.join(" > ")
        ))
    }

    /// Each executed task as a bar (`#` on the critical path, `=` elsewhere) after the time it waited for a
    /// place or a lock (`.`).
    pub fn gantt(&self, tasks: &[Task], graph: &Graph, width: usize) -> String {
        let order = graph.order();
        let critical =
            order.map(|o| graph.critical_path(&o, |t| self.records[t].duration().unwrap_or_default()));
        let critical = critical.map(|c| c.tasks).unwrap_or_default();
        let mut shown: Vec<usize> = (0..tasks.len())
            .filter(|t| self.records[*t].started.is_some())
            .collect();
        shown.sort_by_key(|t| (self.records[*t].started, *t));
        let widest = shown
            .iter()
            .map(|t| tasks[*t].name().chars().count())
            .max()
            .unwrap_or(0)
            .min(24);
        let room = width.saturating_sub(widest + 12).max(10);
        let column = |d: Duration| {
            let at = d.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9) * room as f64;
            (at as usize).min(room - 1)
        };
        let mut text = String::new();
        for task in shown {
            let record = &self.records[task];
            let (Some(start), Some(end)) = (record.started, record.ended) else {
                continue;
            };
            let before = graph
                .dependencies(task, false)
                .into_iter()
                .filter_map(|t| self.records[t].ended);
            let ready = before.max().unwrap_or_default().min(start);
            let (ready, start, end) = (column(ready), column(start), column(end));
            let bar = if critical.contains(&task) { "#" } else { "=" };
            let name: String = tasks[task].name().chars().take(widest).collect();
            let waits = ".".repeat(start - ready);
            let bar = bar.repeat((end.max(start) - start).max(1));
            let length = seconds(record.duration().unwrap_or_default());
            let _ = writeln!(text, "{name:>widest$} {}{waits}{bar} {length}", " ".repeat(ready));
        }
        text += "# on the critical path, = beside it, . ready and waiting for a place, a pool or a lock\n";
        text
    }
}

fn seconds(d: Duration) -> String {
    format!("{:.3} s", d.as_secs_f64())
}
