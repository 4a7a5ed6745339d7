//! A job made of tasks: `[job.x.task.NAME]`, `flow = "DIR"` or `flow = { dir = "DIR", … }`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::de::DeValue;

use super::filling::Filling;
use super::flow_spec::{FlowSpec, Resume, TaskSpec};
use super::pools::Pools;
use super::spec::{Command, JobSpec};
use super::{check, retry};
use crate::document::{Found, Reader, Wrong, boolean, count, filled, one_of, positive_duration, text};
use crate::flow::{Action, Extras, Task};
use crate::graph::{Graph, Place, Reference, Relation};

impl FlowSpec {
    /// With `{instance}`, `{slot}` and `{due}` of lists filled in.
    #[must_use]
    pub fn filled(mut self, with: &Filling) -> Self {
        for task in self.tasks.values_mut() {
            if let Some(Command::Argv(argv)) = &mut task.command {
                argv.iter_mut().for_each(|word| *word = with.within(word));
            }
        }
        self
    }

    /// The tasks of the job file, in the order of their names. Places say the task and no line.
    pub fn tasks(&self) -> Vec<Task> {
        let place = |name: &str| Place {
            file: name.into(),
            line: 0,
        };
        self.tasks
            .iter()
            .map(|(name, spec)| task(name, spec, |_, _| place(name)))
            .collect()
    }
}

fn task(name: &str, spec: &TaskSpec, at: impl Fn(&'static str, usize) -> Place) -> Task {
    let action = spec.command.clone().map_or(Action::Nothing, Action::Command);
    let mut task = Task::new(name, at("", 0), action);
    task.member.provides.push((name.to_owned(), at("", 0)));
    let provided = spec.provides.iter().enumerate();
    task.member
        .provides
        .extend(provided.map(|(i, n)| (n.clone(), at("provides", i))));
    let lists = [
        (Relation::Requires, "requires", &spec.requires),
        (Relation::After, "after", &spec.after),
        (Relation::Before, "before", &spec.before),
        (Relation::Conflicts, "conflicts", &spec.conflicts),
    ];
    for (relation, key, names) in lists {
        let references = names.iter().enumerate().map(|(i, other)| Reference {
            relation,
            name: other.clone(),
            optional: false,
            at: at(key, i),
        });
        task.member.references.extend(references);
    }
    task.extras = Arc::new(Extras {
        rounds: None,
        locks: spec.locks.clone(),
        pool: spec.pool.clone(),
        timeout: spec.timeout,
        retry: spec.retry.clone(),
        env: spec.env.clone(),
    });
    task.always_run = spec.always_run;
    task
}

/// Where the names of a task stand: key, index in its list, span.
type Spans = Vec<(&'static str, usize, Range<usize>)>;

/// Reads what makes a job a flow.
pub(super) fn read_flow(job: &mut Reader<'_>, spec: &mut JobSpec, pools: &Pools) {
    job.set(
        "resume",
        &mut spec.resume,
        one_of(&[
            ("restart", Resume::Restart),
            ("skip-finished", Resume::SkipFinished),
        ]),
    );
    let given = job.raw("flow");
    if let Some(DeValue::Table(_)) = given.as_ref().map(|found| found.value) {
        spec.flow = given
            .zip(job.table("flow"))
            .map(|(found, table)| read_dir(table, found.span));
    } else if let Some(dir) = job.read("flow", check::absolute_path) {
        spec.flow = Some(FlowSpec {
            dir: Some(dir.value),
            ..FlowSpec::default()
        });
    }
    read_tasks(job, spec, pools);
    let Some(preload) = job.read("preload", check::absolute_path) else {
        return;
    };
    match &mut spec.flow {
        Some(flow) => flow.preload = Some(preload.value),
        None => job.sink().report(
            preload.span,
            "`preload` is for flows",
            "load the library in the command, or write `flow` or `task`",
        ),
    }
}

fn read_dir(mut table: Reader<'_>, span: Range<usize>) -> FlowSpec {
    let mut flow = FlowSpec::default();
    match table.key_span("dir") {
        Some(_) => table.maybe("dir", &mut flow.dir, check::absolute_path),
        None => table.sink().report(
            span,
            "`flow` has no `dir`",
            "add dir = \"/etc/rc.d\", or another directory",
        ),
    }
    let scripts = &mut flow.scripts;
    table.set("stop", &mut scripts.stop, boolean);
    for (key, into) in [("skip", &mut scripts.skip), ("keep", &mut scripts.keep)] {
        let found = table.list(key, true, filled).unwrap_or_default();
        into.extend(found.into_iter().map(|found| found.value));
    }
    let facilities = table.list("facilities", true, check::absolute_path);
    scripts.facilities = facilities.into_iter().flatten().map(|f| f.value).collect();
    table.maybe("extract", &mut scripts.extract, filled);
    let missing = one_of(&[("error", false), ("warn", true)]);
    table.set("missing", &mut scripts.missing_warns, missing);
    table.maybe("jobs", &mut scripts.jobs, |value| match count(65_535)(value)? {
        0 => Err(Wrong::new(
            "with 0 nothing starts",
            "leave it out for the default",
        )),
        jobs => Ok(jobs),
    });
    table.finish(&[
        ("path", "did you mean `dir`?"),
        ("direction", "did you mean `stop`?"),
    ]);
    flow
}

fn read_tasks(job: &mut Reader<'_>, spec: &mut JobSpec, pools: &Pools) {
    let Some(tasks) = job.table("task") else { return };
    let sink = job.sink();
    let mut flow = FlowSpec::default();
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut places: BTreeMap<String, Spans> = BTreeMap::new();
    for (name, value) in tasks.entries() {
        let Some(table) = value.value.as_table() else {
            let what = format!("task `{}`: expected a table", name.value);
            sink.report(
                value.span,
                what,
                "write [job.JOB.task.NAME] and its keys below it",
            );
            continue;
        };
        let mut found = vec![("", 0, name.span.clone())];
        let read = read_task(Reader::new(vec![table], sink), &mut found, pools);
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
        let near = crate::document::closest(&missing.name, graph.names().keys().map(|name| &**name));
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
    let mut task = TaskSpec::default();
    match table.raw("command").map(|f| f.value) {
        Some(DeValue::Array(_)) => {
            let argv = table.list("command", false, text);
            task.command = argv.map(|list| Command::Argv(list.into_iter().map(|f| f.value).collect()));
        }
        Some(_) => table.maybe("command", &mut task.command, |v| filled(v).map(Command::Shell)),
        None => {}
    }
    let lists: [(&'static str, &mut Vec<String>); 6] = [
        ("requires", &mut task.requires),
        ("after", &mut task.after),
        ("before", &mut task.before),
        ("provides", &mut task.provides),
        ("locks", &mut task.locks),
        ("conflicts", &mut task.conflicts),
    ];
    for (key, into) in lists {
        for (index, Found { value, span }) in table
            .list(key, true, filled)
            .unwrap_or_default()
            .into_iter()
            .enumerate()
        {
            into.push(value);
            found.push((key, index, span));
        }
    }
    task.pool = table
        .read("pool", |value| {
            let name = filled(value)?;
            match (pools.size(&name), pools.missing(&name)) {
                (_, Some(wrong)) => Err(wrong),
                (Some(0), _) => Err(Wrong::new(
                    format!("pool `{name}` has no place, and a task cannot wait for ever"),
                    "give the pool a place, or take the task out of it",
                )),
                _ => Ok(name),
            }
        })
        .map(|found| found.value);
    table.maybe("timeout", &mut task.timeout, positive_duration);
    retry::read_retry(&mut table, &mut task.retry);
    table.set("always_run", &mut task.always_run, boolean);
    if let Some(env) = table.table("env") {
        check::environment(env, &mut task.env);
    }
    if let (Some(Command::Argv(argv)), Some(span)) = (&task.command, table.key_span("command"))
        && argv.first().is_none_or(String::is_empty)
    {
        table
            .sink()
            .report(span, "`command`: it is empty", "begin with the program");
    }
    table.finish(&[
        ("cmd", "did you mean `command`?"),
        ("depends", "did you mean `requires`?"),
        ("depends_on", "did you mean `requires`?"),
        ("always-run", "did you mean `always_run`?"),
    ]);
    task
}
