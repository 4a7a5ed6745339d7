//! What a flow would do: order, levels, critical path, cycles, missing names.

use std::fmt::Write;
use std::time::Duration;

use farmhand_core::flow::Task;
use farmhand_core::graph::{Cycle, Graph, Missing, Place, Step};
use serde::Serialize;

/// For programs; the first five keys are the contract.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// All tasks, those left out too.
    pub tasks: Vec<PlannedTask>,
    /// Names, those left out excepted; empty when there is a cycle.
    pub order: Vec<String>,
    /// Each cycle that keeps the flow from running, by its tasks' names.
    pub cycles: Vec<Vec<String>>,
    /// Names that nobody provides, each once.
    pub missing: Vec<String>,
    pub critical_path: Vec<String>,
    /// The tasks that can run at once, level by level.
    pub levels: Vec<Vec<String>>,
    pub(crate) cycle_edges: Vec<Cycle>,
    pub(crate) missing_at: Vec<Missing>,
}

/// A task with what it waits for, as a plan shows it.
#[derive(Debug, Serialize)]
pub struct PlannedTask {
    pub name: String,
    /// Tasks that must have succeeded, marks replaced by their providers.
    pub requires: Vec<String>,
    /// All tasks that must have ended, those of `requires` included.
    pub after: Vec<String>,
    /// Names that others can wait for besides its own.
    pub provides: Vec<String>,
    pub keywords: Vec<String>,
    /// Names of which it holds each alone while it runs.
    pub locks: Vec<String>,
    /// Tasks that do not run while it runs.
    pub conflicts: Vec<String>,
    /// How many tasks must end one after the other before it; none when there is a cycle.
    pub level: Option<usize>,
    /// Why it is left out; none when it is not.
    pub left_out: Option<String>,
    #[serde(flatten)]
    pub at: Place,
}

/// The graph of a flow's tasks; node and task indices are the same. With the lines that were ignored because they close
/// a cycle in which nothing is required.
pub fn graph(tasks: &[Task]) -> (Graph, Vec<Step>) {
    let mut graph = Graph::new(&tasks.iter().map(|t| &t.member).collect::<Vec<_>>());
    let broken = graph.break_soft_cycles();
    (graph, broken)
}

/// Plans a flow. All tasks are taken to last equally long.
pub fn plan(tasks: &[Task], graph: &Graph) -> Plan {
    let order = graph.order();
    let runs = |t: usize| tasks[t].left_out.is_none();
    let name = |t: usize| tasks[t].name().to_owned();
    let names = |list: Vec<usize>| list.into_iter().map(name).collect::<Vec<_>>();
    let planned = |(index, task): (usize, &Task)| PlannedTask {
        name: task.name().to_owned(),
        requires: names(graph.dependencies(index, true)),
        after: names(graph.dependencies(index, false)),
        provides: task.member.provides.iter().map(|(n, _)| n.clone()).collect(),
        keywords: task.keywords.clone(),
        locks: task.extras.locks.clone(),
        conflicts: names(graph.conflicts(index).to_vec()),
        level: order.as_ref().map(|o| o.level(index)),
        left_out: task.left_out.clone(),
        at: task.at.clone(),
    };
    let mut levels: Vec<Vec<String>> = Vec::new();
    let mut sequence = Vec::new();
    let mut critical = Vec::new();
    if let Some(order) = &order {
        for task in order
            .nodes()
            .iter()
            .copied()
            .filter(|n| *n < tasks.len() && runs(*n))
        {
            let level = order.level(task);
            levels.resize(levels.len().max(level + 1), Vec::new());
            levels[level].push(name(task));
            sequence.push(name(task));
        }
        let path = graph.critical_path(order, |t| Duration::from_secs(u64::from(runs(t))));
        critical = names(path.tasks.into_iter().filter(|t| runs(*t)).collect());
    }
    let cycles = if order.is_none() {
        graph.cycles()
    } else {
        Vec::new()
    };
    let mut missing: Vec<String> = graph.missing().iter().map(|m| m.name.clone()).collect();
    missing.dedup();
    Plan {
        tasks: tasks.iter().enumerate().map(planned).collect(),
        order: sequence,
        cycles: cycles.iter().map(|c| c.tasks(graph)).collect(),
        missing,
        critical_path: critical,
        levels,
        cycle_edges: cycles,
        missing_at: graph.missing().to_vec(),
    }
}

/// The graph for Graphviz; order without a requirement is dashed.
pub fn dot(plan: &Plan) -> String {
    let mut text = "digraph flow {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    for task in &plan.tasks {
        let style = if task.left_out.is_some() {
            " [style=dotted]"
        } else {
            ""
        };
        let _ = writeln!(text, "  {}{style};", quoted(&task.name));
        for from in &task.after {
            let soft = if task.requires.contains(from) {
                ""
            } else {
                " [style=dashed]"
            };
            let _ = writeln!(text, "  {} -> {}{soft};", quoted(from), quoted(&task.name));
        }
    }
    text + "}\n"
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The graph for Mermaid, whose names must be plain: tasks are numbered and labelled.
pub fn mermaid(plan: &Plan) -> String {
    let mut text = "flowchart LR\n".to_owned();
    let number = |name: &String| plan.tasks.iter().position(|t| t.name == *name).unwrap_or(0);
    for (index, task) in plan.tasks.iter().enumerate() {
        let label = task.name.replace('&', "#amp;").replace('"', "#quot;");
        let _ = writeln!(text, "  t{index}[\"{label}\"]");
        for from in &task.after {
            let arrow = if task.requires.contains(from) {
                "-->"
            } else {
                "-.->"
            };
            let _ = writeln!(text, "  t{} {arrow} t{index}", number(from));
        }
    }
    text
}
