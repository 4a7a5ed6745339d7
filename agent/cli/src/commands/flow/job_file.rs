//! Flows of job files, run on this machine without a database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use farmhand_core::definition::{Filling, FlowSpec, JobDefinition, JobSpec, differences, load};
use farmhand_core::document::closest;
use farmhand_core::flow::{Extras, Task};

use crate::commands::{Failure, job_files, out};

/// Keys of a job that only an agent can follow. Keys that say when and where a job runs are not among them: whoever
/// calls this command decides that.
const AGENTS: [&str; 18] = [
    "child_limits",
    "cwd",
    "grace",
    "isolation",
    "limits",
    "locks",
    "nice",
    "node_pool",
    "params",
    "pool",
    "progress_timeout",
    "resume",
    "retry",
    "secrets",
    "stdin",
    "timeout",
    "umask",
    "user",
];

/// A job's flow, and the variables of all of its tasks.
pub(super) struct Described {
    pub flow: FlowSpec,
    env: BTreeMap<String, String>,
}

pub(super) fn is_job_file(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml") && !path.is_dir()
}

/// The flow of the named job, or of the only one that has a flow. Says which keys of the job do not count here.
pub(super) fn read(path: &Path, name: Option<&str>) -> Result<Described, Failure> {
    let sources = job_files::read_all(&[path.to_owned()])?;
    let jobs = load(&sources).map_err(|mistakes| {
        let failure = Failure::usage("the job file has mistakes").next("fix these errors; nothing was run");
        mistakes.to_string().lines().fold(failure, Failure::why)
    })?;
    let job = choose(path, jobs, name)?;
    let value = |spec: &JobSpec| serde_json::to_value(spec).unwrap_or_default();
    let said = differences(&value(&JobSpec::default()), &value(&job.spec));
    let said: Vec<_> = said.iter().filter(|key| AGENTS.contains(&key.as_str())).collect();
    for key in said {
        out::note(&format!(
            "warning: `{key}` of job {} does not count here: it is for agents",
            job.name
        ));
    }
    // The only instance, in no agent's slot, due now.
    let filling = Filling {
        due: jiff::Timestamp::now().to_string(),
        ..Filling::default()
    };
    Ok(Described {
        flow: job.spec.flow.unwrap_or_default().filled(&filling),
        env: job.spec.env,
    })
}

fn choose(path: &Path, jobs: Vec<JobDefinition>, name: Option<&str>) -> Result<JobDefinition, Failure> {
    let (mut flows, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.spec.flow.is_some());
    let names: Vec<String> = flows.iter().map(|job| job.name.clone()).collect();
    let all = names.join(", ");
    let file = path.display();
    if let Some(name) = name {
        if let Some(index) = names.iter().position(|n| n == name) {
            return Ok(flows.swap_remove(index));
        }
        let failure = match others.iter().any(|job| job.name == name) {
            true => Failure::usage(format!("job `{name}` of {file} is not a flow"))
                .why("it has neither `task` nor `flow`"),
            false => Failure::not_found(format!("{file} has no job `{name}`")),
        };
        return Err(match closest(name, names.iter().map(String::as_str)) {
            Some(near) => failure.next(format!("did you mean `{near}`?")),
            None if all.is_empty() => failure.next("write [job.NAME.task.TASK], or `flow = \"DIR\"`"),
            None => failure.next(format!("its flows are: {all}")),
        });
    }
    match flows.len() {
        1 => Ok(flows.swap_remove(0)),
        0 => Err(Failure::usage(format!("no job of {file} is a flow"))
            .next("write [job.NAME.task.TASK], or `flow = \"DIR\"`")),
        _ => {
            Err(Failure::usage(format!("{file} has several flows: {all}")).next("choose one with --job NAME"))
        }
    }
}

impl Described {
    /// Puts the job's variables under those of each task.
    pub(super) fn with_env(&self, tasks: &mut [Task]) {
        if self.env.is_empty() {
            return;
        }
        for task in tasks {
            let mut env = self.env.clone();
            env.extend(task.extras.env.clone());
            task.extras = Arc::new(Extras {
                env,
                ..(*task.extras).clone()
            });
        }
    }
}
