//! `farmhand workers`: so many copies of a command, each started again when it ends; needs no database.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use farmhand_core::continuous::{BASE, Rounds};
use farmhand_core::definition::Command;
use farmhand_core::document::parse_duration;
use farmhand_core::flow::{Action, Course, Direction, Extras, Task};
use farmhand_core::graph::Place;
use farmhand_core::retry::Retry;
use farmhand_engine::flow::engine::{FlowEngine, Options, Passed, Tools};
use farmhand_engine::flow::events::{Reporter, Style};
use farmhand_engine::flow::fifo::{Directory, Fifos};
use farmhand_engine::flow::guardian::{Guardian, Spared};
use farmhand_engine::flow::plan;
use farmhand_engine::flow::rundir::RunDir;
use farmhand_engine::flow::spawn::Spawner;
use farmhand_engine::locks::Locks;
use farmhand_os::signal::Signals;

use super::{Exit, Failure, Outcome};

/// Exit code 0: again at once. Another one: again after a pause that grows with each failure in a row, 1s to 5m.
///
/// SIGTERM, SIGINT: no further round begins, and what runs may come to its end; again: the workers get SIGTERM, then SIGKILL.
/// SIGQUIT: SIGKILL at once.
#[derive(Args, Debug)]
pub(crate) struct WorkersArgs {
    /// How many at a time
    #[arg(short = 'n', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    instances: u16,
    /// An exit code that means "nothing to do"; may be repeated
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..))]
    idle_exit: Vec<u8>,
    /// The pause after one of them
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    idle_delay: Duration,
    /// After SIGTERM: how long what runs may come to its end before the workers get SIGTERM
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    stop_timeout: Duration,
    /// Between asking a worker to end and ending it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// The command; `{instance}` in an argument becomes the worker's number, from 0
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(super) fn run(args: &WorkersArgs, json: bool) -> Outcome {
    let tasks: Vec<Task> = (0..args.instances).map(|n| args.task(n)).collect();
    let (graph, _) = plan::graph(&tasks);
    let course = Course::new(&tasks, &graph, tasks.len(), &BTreeSet::new())
        .ok_or_else(|| Failure::broken("the workers wait for each other"))?;
    let dir = RunDir::prepare(None, false, Direction::Start)?;
    // SAFETY: this command runs in a process that has made no thread.
    let guardian = unsafe { Guardian::start(&dir, Spared::Nothing, &Locks::default())? };
    let style = if json { Style::Json } else { Style::Quiet };
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    let stdout = match json {
        // Only events are on stdout then.
        true => stderr.try_clone()?,
        false => std::io::stdout().as_fd().try_clone_to_owned()?,
    };
    let tools = Tools {
        fifos: Directory::create(&dir.deps()).and_then(Fifos::new)?,
        preload: None,
        spawner: Spawner::new(&[("FARMHAND_RUN_DIR", dir.path().into())])?,
        signals: Signals::block()?,
        guardian,
        locks: Locks::default(),
        reporter: Reporter::new(style, &[], tasks.len()),
        output: Some(Passed { stdout, stderr }),
        dir,
    };
    let options = Options {
        direction: Direction::Start,
        grace: args.grace,
        timeout: None,
        drain: Some(args.stop_timeout),
    };
    let report = FlowEngine::new(&tasks, &graph, course, tools, options).run();
    report.dir.remove();
    match (report.trouble, report.interrupted) {
        (Some(why), _) => Err(Failure::broken("the workers were ended").why(why)),
        (None, true) => Ok(Exit::Interrupted),
        (None, false) => Ok(Exit::Ok),
    }
}

impl WorkersArgs {
    fn task(&self, instance: u16) -> Task {
        let instance = instance.to_string();
        let command = self.command.iter();
        let command = command
            .map(|word| word.replace("{instance}", &instance))
            .collect();
        let place = Place {
            file: "farmhand workers".into(),
            line: 0,
        };
        let action = Action::Command(Command::Argv(command));
        let mut task = Task::new(format!("worker-{instance}"), place, action);
        task.extras = Arc::new(Extras {
            rounds: Some(Rounds {
                idle_exit: self.idle_exit.iter().map(|code| i32::from(*code)).collect(),
                idle_delay: self.idle_delay,
                retry: Retry {
                    base: BASE,
                    ..Retry::default()
                },
            }),
            env: BTreeMap::from([
                ("FARMHAND_INSTANCE".to_owned(), instance),
                ("FARMHAND_INSTANCES".to_owned(), self.instances.to_string()),
            ]),
            ..Extras::default()
        });
        task
    }
}
