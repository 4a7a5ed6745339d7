//! `farmhand flow run`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use farmhand_core::document::parse_duration;
use farmhand_core::flow::{Course, Task};
use farmhand_core::graph::Graph;

use super::{Loaded, SourceArgs};
use crate::commands::{Exit, Failure, Outcome, out};
use farmhand_core::input::flow::FlowInput;
use farmhand_engine::flow::engine::{FlowEngine, Options, Tools};
use farmhand_engine::flow::events::{Reporter, Style};
use farmhand_engine::flow::fifo::{Directory, Fifos};
use farmhand_engine::flow::guardian::{Guardian, Spared};
use farmhand_engine::flow::plan;
use farmhand_engine::flow::preload::{Preload, PreloadError};
use farmhand_engine::flow::report::Report;
use farmhand_engine::flow::rundir::{RunDir, RunDirError};
use farmhand_engine::flow::spawn::Spawner;
use farmhand_engine::locks::Locks;
use farmhand_os::memory;
use farmhand_os::signal::Signals;

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// At most this many tasks at a time [default: 64, or 4 for each CPU if that is more]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Say what would run, in order, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// For each task that has no timeout of its own
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Between asking a task to end and ending it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// Where FIFOs, output and the record go [default: a private directory that is deleted after success]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Go on where the last run in --run-dir ended: what succeeded is not run again
    #[arg(long, requires = "run_dir")]
    resume: bool,
    /// A shell library, loaded once; a subshell of that shell runs each script that is for /bin/sh
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,
    /// Called by an agent: the flow stands on stdin
    #[arg(long, hide = true)]
    from_run: bool,
    /// Do not show the output of tasks; it is in the run directory
    #[arg(short, long)]
    quiet: bool,
    /// Draw when each task waited and ran
    #[arg(long)]
    gantt: bool,
}

pub(super) fn run(args: &RunArgs, json: bool) -> Outcome {
    let (flow, graph, mut done) = flow(args)?;
    flow.source.judge(&graph)?;
    if args.dry_run {
        return dry_run(&flow.tasks, &graph, json);
    }
    let dir = RunDir::prepare(args.run_dir.as_deref(), args.resume, flow.source.direction())?;
    if args.resume {
        done = dir.finished()?;
    }
    let (report, total) = execute(args, json, &flow, &graph, &done, dir)?;
    conclude(args, json, &flow.tasks, &graph, report, total)
}

fn execute(
    args: &RunArgs,
    json: bool,
    flow: &Loaded,
    graph: &Graph,
    done: &BTreeSet<String>,
    dir: RunDir,
) -> Result<(Report, usize), Failure> {
    let tasks = &flow.tasks;
    let course = Course::new(tasks, graph, args.limit(flow.jobs), done)
        .ok_or_else(|| Failure::broken("the tasks wait for each other in a cycle"))?
        .with_pools(&flow.pools);
    let deps = dir.deps();
    let no_deps = |e: std::io::Error| RunDirError::Io {
        path: deps.clone(),
        source: e,
    };
    let fifos = Directory::create(&deps).and_then(Fifos::new).map_err(no_deps)?;
    let set: [(&str, OsString); 2] = [
        ("FARMHAND_DEPS", deps.clone().into()),
        ("FARMHAND_RUN_DIR", dir.path().into()),
    ];
    let names = tasks.iter().flat_map(|task| &task.extras.locks);
    let locks = Locks::open(names.map(|name| (name.as_str(), 1)))?;
    // SAFETY: this command runs in a process that has made no thread.
    let mut guardian = unsafe { Guardian::start(&dir, Spared::Daemons, &locks)? };
    let style = match (json, args.quiet) {
        (true, _) => Style::Json,
        (false, true) => Style::Quiet,
        (false, false) => Style::People,
    };
    let names: Vec<_> = tasks
        .iter()
        .filter(|t| t.left_out.is_none())
        .map(Task::name)
        .collect();
    let spawner = Spawner::new(&set)?;
    let preload = args.preload.as_deref().or(flow.preload.as_deref());
    let loaded = preload.map(|library| Preload::start(library, dir.path().join("preload"), &spawner));
    let preload = loaded.transpose()?;
    if let Some(leader) = preload.as_ref().and_then(Preload::pid) {
        guardian.tell_session(leader);
    }
    let tools = Tools {
        fifos,
        preload,
        spawner,
        signals: Signals::block()?,
        guardian,
        reporter: Reporter::new(style, &names, names.len()),
        output: None,
        locks,
        dir,
    };
    let options = Options {
        direction: flow.source.direction(),
        grace: args.grace,
        timeout: args.timeout,
        drain: None,
    };
    let total = names.len();
    let engine = FlowEngine::new(tasks, graph, course, tools, options);
    // Reading thousands of scripts takes more memory than waiting for them, and a flow may wait for hours.
    memory::give_back();
    Ok((engine.run(), total))
}

/// The tasks, their graph, and those that are not to run again.
fn flow(args: &RunArgs) -> Result<(Loaded, Graph, BTreeSet<String>), Failure> {
    if !args.from_run {
        let (loaded, graph) = args.source.read()?;
        return Ok((loaded, graph, BTreeSet::new()));
    }
    let handed: FlowInput = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|e| Failure::broken("the agent's description of the flow cannot be read").why(e))?;
    if !handed.again.is_empty() {
        let names: Vec<&str> = handed.again.iter().map(String::as_str).collect();
        out::note(&format!(
            "these tasks run again, although the database says that they had succeeded: {}; this node asks for signatures, and the \
             signed job skips tasks only with `resume = \"skip-finished\"`",
            names.join(" ")
        ));
    }
    let loaded = args.source.described(&handed.flow)?;
    let graph = super::graph(&loaded.tasks);
    Ok((loaded, graph, handed.done))
}

impl RunArgs {
    fn limit(&self, of_job: Option<u32>) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map(u32::from).or(of_job);
        jobs.map_or_else(|| (4 * cpus).max(64), |n| n as usize)
    }
}

fn dry_run(tasks: &[Task], graph: &Graph, json: bool) -> Outcome {
    let plan = plan::plan(tasks, graph);
    if json {
        out::json(&plan);
    } else {
        plan.order.iter().for_each(|name| out::line(name));
    }
    Ok(Exit::Ok)
}

fn conclude(
    args: &RunArgs,
    json: bool,
    tasks: &[Task],
    graph: &Graph,
    report: Report,
    total: usize,
) -> Outcome {
    if args.gantt {
        let width = out::width().unwrap_or(100).into();
        let chart = report.gantt(tasks, graph, width);
        if json {
            out::raw_err(chart.as_bytes())
        } else {
            out::raw(chart.as_bytes())
        }
    }
    if !args.quiet || !report.is_good() {
        out::note(&format!("{}: {}", out::count(total, "task"), report.summary()));
        if let Some(critical) = report.critical(tasks, graph) {
            out::note(&critical);
        }
    }
    let good = report.is_good();
    let exit = match (report.interrupted, good) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::Error,
    };
    if let Some(log) = report.dir.lasting_log().filter(|_| !good) {
        out::note(&format!("the output of each task is in {}", log.display()));
    }
    if let Some(trouble) = report.trouble {
        return Err(Failure::broken("the flow was ended before its time").why(trouble));
    }
    if good {
        report.dir.remove();
    }
    Ok(exit)
}

impl From<PreloadError> for Failure {
    fn from(error: PreloadError) -> Self {
        Self::broken(error.to_string())
            .why(error.why)
            .next("Nothing was started; fix the library, or run the flow without it")
    }
}

impl From<RunDirError> for Failure {
    fn from(error: RunDirError) -> Self {
        let what = error.to_string();
        match error {
            RunDirError::Io { source, .. } => Self::broken(what)
                .why(source)
                .next("choose another place with --run-dir"),
            RunDirError::Taken(_) => Self::refused(what)
                .next("wait for its end, or choose another place with --run-dir"),
            RunDirError::OtherDirection { .. } => {
                Self::usage(what).next("leave --resume out, or name another directory")
            }
            RunDirError::Ending(_) => Self::refused(what)
                .next("find the processes (ps -eo pid,stat,cmd; state D hangs in the kernel) and try again when they are gone"),
        }
    }
}
