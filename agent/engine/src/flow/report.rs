//! After the run: what ended how, the critical path as it was, and a chart of it.

use std::fmt::Write;
use std::time::Duration;

use farmhand_core::flow::{End, Task};
use farmhand_core::graph::{Graph, Node};

use super::rundir::RunDir;
use super::signals::Exit;

/// What became of a task. Times since the flow began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Of its first try.
    pub started: Option<Duration>,
    /// Of its last one.
    pub ended: Option<Duration>,
    pub exit: Option<Exit>,
    pub end: Option<End>,
    pub reason: Option<String>,
    /// What it marked before its end: the node, and when.
    pub marks: Vec<(usize, Duration)>,
}

impl Record {
    /// From its start to its end; None for a task that never ran.
    pub(crate) fn duration(&self) -> Option<Duration> {
        Some(self.ended?.saturating_sub(self.started?))
    }
}

/// What became of a flow.
#[derive(Debug)]
pub struct Report {
    pub(crate) records: Vec<Record>,
    pub(crate) elapsed: Duration,
    pub interrupted: bool,
    /// Why the engine gave up; none when it did not.
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
        let (path, length) = chain(&self.records, graph);
        if length.is_zero() {
            return None;
        }
        let over = (self.elapsed.as_secs_f64() / length.as_secs_f64() - 1.0) * 100.0;
        let names: Vec<_> = path.iter().map(|t| tasks[*t].name()).collect();
        let length = seconds(length);
        Some(format!(
            "critical path {length} (the flow took {over:.1} % longer): {}",
            names.join(" > ")
        ))
    }

    /// Each executed task as a bar (`#` on the critical path, `=` elsewhere) after the time it waited for a
    /// place or a lock (`.`).
    pub fn gantt(&self, tasks: &[Task], graph: &Graph, width: usize) -> String {
        let (critical, _) = chain(&self.records, graph);
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

/// From the task that ended last backwards: each time the one of those it came after that let it go last, by its end or
/// by a mark before. With the time that they took for that. Only tasks that were executed.
fn chain(records: &[Record], graph: &Graph) -> (Vec<usize>, Duration) {
    let ended = |task: usize| {
        records[task]
            .started
            .and(records[task].ended)
            .map(|at| (at, task))
    };
    let mut next = (0..graph.tasks()).filter_map(ended).max();
    let (mut tasks, mut length) = (Vec::new(), Duration::ZERO);
    while let Some((until, task)) = next {
        let started = records[task].started.unwrap_or(until);
        length += until.saturating_sub(started);
        tasks.push(task);
        let before = let_go(records, graph, task).into_iter();
        next = before.filter(|(at, _)| *at <= started).max();
    }
    tasks.reverse();
    (tasks, length)
}

/// The tasks that `task` comes right after, through marks and tasks that were not executed, and when each let it go.
fn let_go(records: &[Record], graph: &Graph, task: usize) -> Vec<(Duration, usize)> {
    let mut found = Vec::new();
    let mut look = vec![task];
    while let Some(node) = look.pop() {
        for edge in graph.into(node) {
            let from = edge.from;
            let task = matches!(graph.nodes()[from], Node::Task(_));
            if !task || records[from].started.is_none() {
                look.push(from);
                continue;
            }
            let marks = records[from].marks.iter();
            let marked = marks.filter(|(of, _)| *of == from || *of == node);
            let at = marked.map(|(_, at)| *at).min().or(records[from].ended);
            found.extend(at.map(|at| (at, from)));
        }
    }
    found
}

fn seconds(d: Duration) -> String {
    format!("{:.3} s", d.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use farmhand_core::flow::{Selection, functions};

    const MS: Duration = Duration::from_millis(1);

    /// Of a task: start, end and the mark that it made, in milliseconds; none where it did not run.
    type Times = Option<(u32, u32, Option<(&'static str, u32)>)>;

    fn path(text: &str, times: &[Times]) -> (String, u128) {
        let tasks = functions("all.sh", text, &Selection::default());
        let members: Vec<_> = tasks.iter().map(|t| &t.member).collect();
        let graph = Graph::new(&members);
        let record = |time: &Times| match time {
            None => Record::default(),
            Some((start, end, mark)) => Record {
                started: Some(MS * *start),
                ended: Some(MS * *end),
                marks: mark
                    .iter()
                    .map(|(name, at)| (graph.names()[*name], MS * *at))
                    .collect(),
                ..Record::default()
            },
        };
        let records: Vec<Record> = times.iter().map(record).collect();
        let (path, length) = chain(&records, &graph);
        let names: Vec<_> = path.iter().map(|t| tasks[*t].name()).collect();
        (names.join(" > "), length.as_millis())
    }

    const DAEMON: &str = "# PROVIDE: net\ndaemon() { :; }\n# PROVIDE: disk\nmount() { :; }\n\
                          # REQUIRE: net disk\nclient() { :; }\n# REQUIRE: client\nlast() { :; }\n";

    #[test]
    fn a_daemon_counts_until_its_mark() {
        let times = [
            Some((0, 5000, Some(("net", 100)))),
            Some((0, 50, None)),
            Some((101, 5900, None)),
            Some((5901, 6000, None)),
        ];
        assert_eq!(path(DAEMON, &times), ("daemon > client > last".to_owned(), 5998));
        let slow_disk = [
            Some((0, 5000, Some(("daemon", 100)))),
            Some((0, 200, None)),
            Some((201, 5900, None)),
            Some((5901, 6000, None)),
        ];
        assert_eq!(
            path(DAEMON, &slow_disk),
            ("mount > client > last".to_owned(), 5998)
        );
    }

    #[test]
    fn only_what_ran_is_named() {
        let times = [Some((0, 100, None)), None, Some((100, 300, None)), None];
        assert_eq!(path(DAEMON, &times), ("daemon > client".to_owned(), 300));
        let without_client = [Some((0, 100, None)), None, None, Some((100, 300, None))];
        assert_eq!(path(DAEMON, &without_client), ("daemon > last".to_owned(), 300));
        assert_eq!(path(DAEMON, &[None, None, None, None]), (String::new(), 0));
    }
}
