//! A job made of tasks: `[job.x.task.NAME]`, `flow = "DIR"` or `flow = { dir = "DIR", … }`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::from_table::read;
use super::keys::TASK;
use super::resources::Pools;
use super::retry;
use crate::command::Command;
use crate::definition::fill::flow::task;
use crate::definition::spec::flow::{FlowSpec, TaskSpec};
use crate::definition::spec::job::JobSpec;
use crate::document::{Reader, Wrong, closest};
use crate::flow::Task;
use crate::graph::{Graph, Place};
use crate::retry::Retry;

/// Where the names of a task stand: key, index in its list, span.
type Spans = Vec<(&'static str, usize, Range<usize>)>;

/// Reads what makes a job a flow, with its keys as they are stored.
pub(super) fn read_flow(job: &mut Reader<'_>, stored: &Value, spec: &mut JobSpec, pools: &Pools) {
    let given = job.raw("flow").filter(|found| found.value.is_table());
    if let (Some(found), Some(flow)) = (given, &mut spec.flow) {
        if found.value.get("dir").is_none() {
            let fix = "add dir = \"/etc/rc.d\", or another directory";
            job.sink().report(found.span, "`flow` has no `dir`", fix);
        }
        flow.scripts.missing_warns = stored["flow"]["missing"] == "warn";
    }
    read_tasks(job, spec, pools);
    let (Some(preload), Some(found)) = (stored["preload"].as_str(), job.raw("preload")) else {
        return;
    };
    match &mut spec.flow {
        Some(flow) => flow.preload = Some(preload.to_owned()),
        None => job.sink().report(
            found.span,
            "`preload` is for flows",
            "load the library in the command, or write `flow` or `task`",
        ),
    }
}

fn read_tasks(job: &mut Reader<'_>, spec: &mut JobSpec, pools: &Pools) {
    let Some(tasks) = job.table("task") else { return };
    let sink = job.sink();
    let mut flow = FlowSpec::default();
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut places: BTreeMap<String, Spans> = BTreeMap::new();
    for (name, table) in tasks.tables("task", "write [job.JOB.task.NAME] and its keys below it") {
        let mut found = vec![("", 0, name.span.clone())];
        let read = read_task(table, &mut found, pools);
        let pool = read.pool.clone();
        flow.pools
            .extend(pool.and_then(|name| pools.size(&name).map(|size| (name, size))));
        flow.tasks.insert(name.value.to_owned(), read);
        places.insert(name.value.to_owned(), found);
    }
    let tasks: Vec<Task> = flow
        .tasks
        .iter()
        .map(|(name, spec)| {
            let known = &places[name];
            let first = spans.len();
            spans.extend(known.iter().map(|(_, _, span)| span.clone()));
            // The line of a place is the number of its span, until it is reported.
            task(name, spec, |key, index| Place {
                file: name.as_str().into(),
                line: known
                    .iter()
                    .position(|(k, i, _)| *k == key && *i == index)
                    .and_then(|at| u32::try_from(first + at).ok())
                    .unwrap_or(0),
            })
        })
        .collect();
    let mut graph = Graph::new(&tasks.into_iter().map(|t| t.member).collect::<Vec<_>>());
    // As when it runs, where the line that does not count is told.
    graph.break_soft_cycles();
    let span = |place: &Place| spans.get(place.line as usize).cloned().unwrap_or_default();
    for missing in graph.missing() {
        let near = closest(&missing.name, graph.names().keys().map(|name| &**name));
        let fix = near.map_or_else(
            || "a task or one of its `provides` must have that name".to_owned(),
            |near| format!("did you mean \"{near}\"?"),
        );
        sink.report(
            span(&missing.at),
            format!("nobody provides `{}`", missing.name),
            fix,
        );
    }
    for cycle in graph.cycles() {
        let tasks = cycle.tasks(&graph).join("`, `");
        for step in &cycle.steps {
            sink.report(
                span(&step.at),
                format!(
                    "`{}` comes before `{}`, in a cycle of `{tasks}`",
                    step.from, step.to
                ),
                "take one of the relations out of the cycle",
            );
        }
    }
    spec.flow = Some(flow);
}

fn read_task(mut table: Reader<'_>, found: &mut Spans, pools: &Pools) -> TaskSpec {
    let mut task: TaskSpec = read(&mut table, TASK);
    for key in ["requires", "after", "before", "provides", "conflicts"] {
        let places = table.texts(key).into_iter().enumerate();
        found.extend(places.map(|(index, found)| (key, index, found.span)));
    }
    if let (Some(name), Some(found)) = (&task.pool, table.raw("pool")) {
        let wrong = match pools.size(name) {
            Some(0) => Some(Wrong::new(
                format!("pool `{name}` has no place, and a task cannot wait for ever"),
                "give the pool a place, or take the task out of it",
            )),
            _ => pools.missing(name),
        };
        if let Some(wrong) = wrong {
            table.sink().wrong(found.span, "pool", wrong);
        }
    }
    retry::settle(&mut table, &mut task.retry, Retry::default().base);
    if let (Some(Command::Argv(argv)), Some(span)) = (&task.command, table.key_span("command"))
        && argv.first().is_none_or(String::is_empty)
    {
        table
            .sink()
            .report(span, "`command`: it is empty", "begin with the program");
    }
    task
}
