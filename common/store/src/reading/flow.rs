//! The tasks of a run that is a flow: when each ran, what it waited for, which made it last so long.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::run::run_row;
use crate::db::Db;
use crate::error::StoreError;
use crate::protocol::millis;
use crate::snapshot;
use crate::tasks::{TaskRow, tasks};
use farmhand_core::definition::JobSpec;
use farmhand_core::graph::Graph;

/// Dependencies of a task that are named: through a mark each of many may come after each of many others.
pub const NAMED: usize = 200;

/// A run that is a flow.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FlowView {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// Where its scripts lie on the node that ran it; then only ended tasks are known, and no dependencies.
    pub dir: Option<String>,
    /// In an order in which they could have run.
    pub tasks: Vec<FlowTask>,
    /// The chain of tasks that took longest, first to last; of a run that goes on, so far.
    pub critical_path: Vec<String>,
    /// The durations along it.
    pub critical_ms: i64,
    /// From the first start to the last end.
    pub elapsed_ms: i64,
}

/// One task of it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FlowTask {
    /// The task's name.
    pub task: String,
    /// Tasks that must have succeeded, marks replaced by their providers; at most 200.
    pub requires: Vec<String>,
    /// The tasks that must have ended, those that must have succeeded included; at most 200.
    pub after: Vec<String>,
    /// How deep it lies in the graph, from 0.
    pub level: Option<i64>,
    /// Whether it is on the critical path.
    pub critical: bool,
    /// From its start to its end, or to now; none when it did not start.
    pub duration_ms: Option<i64>,
    /// How it ended, if it did.
    pub end: Option<TaskRow>,
}

/// The tasks of a run; None when there is no such run, or it is no flow.
pub async fn flow(db: &Db, run_id: i64) -> Result<Option<FlowView>, StoreError> {
    let Some(run) = run_row(db, run_id).await? else {
        return Ok(None);
    };
    let ended = tasks(db, run_id).await?;
    let spec = snapshot::specs(db, &[(run.job_id.as_str(), run.rev)])
        .await?
        .pop();
    let spec = spec.and_then(|row| serde_json::from_value::<JobSpec>(row.spec).ok());
    let Some(flow) = spec.and_then(|spec| spec.flow) else {
        return Ok(None);
    };
    let mut view = drawn(&flow.tasks(), ended);
    (view.run_id, view.job_id, view.dir) = (run_id, run.job_id, flow.dir);
    Ok(Some(view))
}

/// The graph of the definition with what has ended; the ends alone where the definition names no tasks.
fn drawn(planned: &[farmhand_core::flow::Task], ended: Vec<TaskRow>) -> FlowView {
    let elapsed = elapsed(&ended);
    let mut ends: BTreeMap<String, TaskRow> = (ended.into_iter())
        .map(|row| (row.end.task.clone(), row))
        .collect();
    let mut graph = Graph::new(&planned.iter().map(|t| &t.member).collect::<Vec<_>>());
    graph.break_soft_cycles();
    let order = graph.order();
    let lasted = |index: usize| {
        let row = planned
            .get(index)
            .and_then(|t| ends.get(t.name()))
            .filter(|row| ran_here(row));
        row.and_then(duration).unwrap_or_default()
    };
    let critical = order.as_ref().map(|order| graph.critical_path(order, lasted));
    let length = critical.as_ref().map_or(Duration::ZERO, |path| path.length);
    // Without any time there is no longest chain.
    let chain: Vec<usize> = critical
        .filter(|_| !length.is_zero())
        .map(|path| path.tasks)
        .unwrap_or_default();
    let name = |index: &usize| planned[*index].name().to_owned();
    let critical_path: Vec<String> = chain.iter().filter(|i| **i < planned.len()).map(name).collect();
    let sequence: Vec<usize> = match &order {
        Some(order) => order
            .nodes()
            .iter()
            .copied()
            .filter(|i| *i < planned.len())
            .collect(),
        None => (0..planned.len()).collect(),
    };
    let mut tasks: Vec<FlowTask> = Vec::with_capacity(planned.len());
    for index in sequence {
        let end = ends.remove(planned[index].name());
        let named = |hard| -> Vec<String> {
            let all = graph.dependencies(index, hard);
            all.iter().take(NAMED).map(name).collect()
        };
        tasks.push(FlowTask {
            task: name(&index),
            requires: named(true),
            after: named(false),
            level: order.as_ref().and_then(|o| i64::try_from(o.level(index)).ok()),
            critical: chain.contains(&index),
            duration_ms: end.as_ref().and_then(duration).map(millis),
            end,
        });
    }
    let mut rest: Vec<TaskRow> = ends.into_values().collect();
    rest.sort_by_key(|row| (row.end.started_at, row.end.ended_at));
    tasks.extend(rest.into_iter().map(|row| FlowTask {
        task: row.end.task.clone(),
        requires: Vec::new(),
        after: Vec::new(),
        level: None,
        critical: false,
        duration_ms: duration(&row).map(millis),
        end: Some(row),
    }));
    FlowView {
        run_id: 0,
        job_id: String::new(),
        dir: None,
        tasks,
        critical_path,
        critical_ms: millis(length),
        elapsed_ms: elapsed.map_or(0, millis),
    }
}

fn duration(row: &TaskRow) -> Option<Duration> {
    let started = row.end.started_at?;
    Some(row.end.ended_at.duration_since(started).unsigned_abs())
}

/// Whether it ran in this run, and not in the one that this one repeats.
fn ran_here(row: &TaskRow) -> bool {
    row.attempt > 0
}

fn elapsed(rows: &[TaskRow]) -> Option<Duration> {
    let own = || rows.iter().filter(|row| ran_here(row));
    let first: Timestamp = own().filter_map(|r| r.end.started_at).min()?;
    let last = own().map(|r| r.end.ended_at).max()?;
    Some(last.duration_since(first).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::TaskEnd;
    use farmhand_core::definition::{FlowSpec, TaskSpec};

    fn ended(task: &str, from: i64, to: i64) -> TaskRow {
        TaskRow {
            attempt: 1,
            address: Some("n".to_owned()),
            end: TaskEnd {
                task: task.to_owned(),
                outcome: "succeeded".to_owned(),
                started_at: Timestamp::from_second(from).ok(),
                ended_at: Timestamp::from_second(to).unwrap(),
                exit_code: Some(0),
                signal: None,
                cpu_ms: None,
                max_rss_bytes: None,
                reason: None,
                blame: Vec::new(),
            },
        }
    }

    fn spec(requires: &[(&str, &[&str])]) -> FlowSpec {
        let task = |(name, list): &(&str, &[&str])| {
            let requires = list.iter().map(|t| (*t).to_owned()).collect();
            (
                (*name).to_owned(),
                TaskSpec {
                    requires,
                    ..TaskSpec::default()
                },
            )
        };
        FlowSpec {
            tasks: requires.iter().map(task).collect(),
            ..FlowSpec::default()
        }
    }

    #[test]
    fn the_critical_path_is_the_slowest_chain_of_what_ran() {
        let spec = spec(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])]);
        let rows = vec![
            ended("a", 0, 1),
            ended("b", 1, 2),
            ended("c", 1, 9),
            ended("d", 9, 10),
        ];
        let view = drawn(&spec.tasks(), rows);
        assert_eq!(view.critical_path, ["a", "c", "d"]);
        assert_eq!((view.critical_ms, view.elapsed_ms), (10_000, 10_000));
        let c = view.tasks.iter().find(|t| t.task == "c").unwrap();
        assert_eq!(
            (c.critical, c.requires.as_slice()),
            (true, ["a".to_owned()].as_slice())
        );
    }

    #[test]
    fn of_many_dependencies_some_are_named() {
        let names: Vec<String> = (0..300).map(|n| format!("t{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let none: &[&str] = &[];
        let mut tasks: Vec<(&str, &[&str])> = names.iter().map(|name| (*name, none)).collect();
        tasks.push(("last", names.as_slice()));
        let view = drawn(&spec(&tasks).tasks(), Vec::new());
        let last = view.tasks.iter().find(|t| t.task == "last").unwrap();
        assert_eq!((last.requires.len(), last.after.len()), (NAMED, NAMED));
    }

    #[test]
    fn tasks_that_wait_are_shown_and_so_are_those_that_no_definition_names() {
        let view = drawn(
            &spec(&[("a", &[]), ("b", &["a"])]).tasks(),
            vec![ended("x", 0, 1)],
        );
        let names: Vec<_> = view
            .tasks
            .iter()
            .map(|t| (t.task.as_str(), t.end.is_some()))
            .collect();
        assert_eq!(names, [("a", false), ("b", false), ("x", true)]);
        assert!(view.critical_path.is_empty());
    }

    #[test]
    fn what_an_earlier_run_did_is_no_time_of_this_one() {
        let mut rows = vec![ended("a", 0, 60), ended("b", 86_400, 86_402)];
        rows[0].attempt = 0;
        let view = drawn(&spec(&[("a", &[]), ("b", &["a"])]).tasks(), rows);
        assert_eq!((view.critical_ms, view.elapsed_ms), (2_000, 2_000));
    }
}
