//! `farmhand flow init`, `farmhand flow wait` and `farmhand flow mark`: inside a flow, and without one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use farmhand_core::document::parse_duration;

use crate::commands::{Exit, Failure, Kind, Outcome, out};
use farmhand_engine::flow::fifo::{Status, WaitError, status, wait, without_engine};
use farmhand_engine::flow::ready_marks;

#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// A directory that does not exist yet, or one that this command made; private to its user
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Names that can be waited for from now on; those that there are stay as they are
    #[arg(required = true)]
    names: Vec<String>,
    /// Those that were marked are to be waited for again
    #[arg(long)]
    again: bool,
}

#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Tasks or marks
    #[arg(required = true)]
    names: Vec<String>,
    /// Give up after this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// The flow's directory [default: $FARMHAND_DEPS]
    #[arg(long, value_name = "DIR")]
    deps: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct MarkArgs {
    /// This task's name, or a mark that it provides
    name: String,
    /// The flow's directory [default: $FARMHAND_DEPS]
    #[arg(long, value_name = "DIR")]
    deps: Option<PathBuf>,
    /// In a directory of `flow init`: how it ended, 0 for success; who waits is told the number, and ends with 10
    #[arg(long, value_name = "N", default_value_t = 0)]
    code: u8,
    /// The task that speaks [default: $FARMHAND_TASK]
    #[arg(long)]
    task: Option<String>,
}

pub(crate) fn run_init(args: &InitArgs, json: bool) -> Outcome {
    without_engine::init(&args.dir, &args.names, args.again).map_err(|e| cannot(&args.dir, e))?;
    if json {
        out::json(&serde_json::json!({"dir": args.dir, "names": args.names}));
    }
    Ok(Exit::Ok)
}

fn cannot(dir: &Path, error: std::io::Error) -> Failure {
    Failure::broken(format!("{} cannot be used", dir.display()))
        .why(error)
        .next("name a directory that does not exist yet, or one that `farmhand flow init` made")
}

/// Waits for all; the exit code is that of the first name, in the order given, that did not succeed.
pub(crate) fn run_wait(args: &WaitArgs, json: bool) -> Outcome {
    let deps = deps(args.deps.as_ref())?;
    let deadline = args.timeout.map(|t| Instant::now() + t);
    let mut failed = None;
    let mut told = serde_json::Map::new();
    for name in &args.names {
        let status = wait(&deps, name, deadline)?;
        let value = serde_json::json!({"code": status.code, "status": status.text});
        told.insert(name.clone(), value);
        if status.code != 0 {
            failed.get_or_insert_with(|| (name.clone(), status));
        }
    }
    if json {
        out::json(&told);
    }
    match failed {
        None => Ok(Exit::Ok),
        Some((name, status)) => Err(Failure::broken(format!("`{name}` did not succeed"))
            .why(format!("{} ({})", status.text, status.code))
            .ending(Exit::RunFailed)),
    }
}

pub(crate) fn run_mark(args: &MarkArgs) -> Outcome {
    let deps = deps(args.deps.as_ref())?;
    if without_engine::is_without_engine(&deps) {
        let word = if args.code == 0 { "ok" } else { "failed" };
        let status = Status::new(args.code, word);
        return match without_engine::mark(&deps, &args.name, &status).map_err(|e| cannot(&deps, e))? {
            true => Ok(Exit::Ok),
            false => Err(WaitError::Unknown(args.name.clone()).into()),
        };
    }
    if args.code != 0 {
        return Err(Failure::usage("--code is for directories of `flow init`")
            .next("a task of a flow ends with its exit code"));
    }
    let task = args.task.clone().or_else(|| std::env::var("FARMHAND_TASK").ok());
    let Some(task) = task else {
        return Err(Failure::usage("it is not known which task speaks")
            .why("FARMHAND_TASK is not set: this is called from inside a task of a flow")
            .next("call it from the task, or name it with --task"));
    };
    // A name that has ended needs no mark, and saying it twice is no mistake.
    if status(&deps, &args.name)?.is_some() {
        return Ok(Exit::Ok);
    }
    if !deps
        .join(farmhand_engine::flow::fifo::file_name(&args.name))
        .exists()
    {
        return Err(WaitError::Unknown(args.name.clone()).into());
    }
    let request = ready_marks::Request {
        task,
        name: args.name.clone(),
    };
    ready_marks::put(&deps, &request)?;
    Ok(Exit::Ok)
}

fn deps(given: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    let own = || {
        std::env::var_os("FARMHAND_DEPS")
            .filter(|d| !d.is_empty())
            .map(PathBuf::from)
    };
    given.cloned().or_else(own).ok_or_else(|| {
        Failure::usage("it is not known which flow is meant")
            .why("FARMHAND_DEPS is not set: this is called from inside a task of a flow")
            .next("call it from the task, or name the directory with --deps")
    })
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        let what = error.to_string();
        match error {
            WaitError::Unknown(_) => {
                Self::not_found(what).next("`ls \"$FARMHAND_DEPS\"` shows the names there are")
            }
            WaitError::TimedOut(_) => Self::new(Kind::Slow, what).ending(Exit::WaitExpired),
            WaitError::Unreadable { source, .. } | WaitError::Io { source, .. } => {
                Self::broken(what).why(source)
            }
        }
    }
}
