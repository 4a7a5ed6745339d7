//! `farmhand flow wait` and `farmhand flow mark`: called from inside a flow.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::commands::{Exit, Failure, Outcome, out};
use farmhand_engine::flow::fifo::{WaitError, status, wait};
use farmhand_engine::flow::marks;

#[derive(Args, Debug)]
pub struct WaitArgs {
    /// Tasks or marks
    #[arg(required = true)]
    names: Vec<String>,
    /// Give up after this long
    #[arg(long, value_name = "TIME", value_parser = super::run::time)]
    timeout: Option<Duration>,
    /// The flow's directory [default: $FARMHAND_DEPS]
    #[arg(long, value_name = "DIR")]
    deps: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct MarkArgs {
    /// This task's name, or a mark that it provides
    name: String,
    /// The flow's directory [default: $FARMHAND_DEPS]
    #[arg(long, value_name = "DIR")]
    deps: Option<PathBuf>,
    /// The task that speaks [default: $FARMHAND_TASK]
    #[arg(long)]
    task: Option<String>,
}

/// Waits for all; the exit code is that of the first name, in the order given, that did not succeed.
pub fn run_wait(args: &WaitArgs, json: bool) -> Outcome {
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
        Some((name, status)) => Err(Failure::new(Exit::RunFailed, format!("`{name}` did not succeed"))
            .why(format!("{} ({})", status.text, status.code))),
    }
}

pub fn run_mark(args: &MarkArgs) -> Outcome {
    let deps = deps(args.deps.as_ref())?;
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
    let request = marks::Request {
        task,
        name: args.name.clone(),
    };
    marks::put(&deps, &request)?;
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
                Self::new(Exit::NotFound, what).next("`ls \"$FARMHAND_DEPS\"` shows the names there are")
            }
            WaitError::TimedOut(_) => Self::new(Exit::WaitExpired, what),
            WaitError::Unreadable { source, .. } | WaitError::Io { source, .. } => {
                Self::new(Exit::Error, what).why(source)
            }
        }
    }
}
