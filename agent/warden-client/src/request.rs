//! From a claimed run to what the warden is asked to do. Pure, and used on both sides: the warden makes the request anew from a
//! signed definition.

mod command;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use farmhand_core::attempt::{AttemptRef, Claimed, RunKind};
use farmhand_core::definition::{
    Command, Filling, JobSpec, Resume, argv, fill, param_text, param_variable, resolve_params,
};
use farmhand_core::document::millis;
use farmhand_core::input::flow;
use farmhand_core::input::stream;
use farmhand_core::lease::BootInstant;
use farmhand_core::trace::traceparent;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::command::key_fits;
use self::command::{key_is_safe, row, well_formed};
use crate::wire::{AttemptId, MAX_STDIN, SpawnRequest};
use farmhand_policy::SECURE_PATH;

/// Between the moment the warden should have ended an attempt and the kernel ending the warden for not
/// having done so: time for a slow start and a busy machine.
const OVERRUN_MARGIN: Duration = Duration::from_secs(10);

/// What is known of an attempt beyond its process. Kept by the warden too, so that an adopting agent has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assignment {
    pub job_id: String,
    /// The kind of run, as metrics say it.
    pub kind: String,
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    pub session: i64,
    /// How often the run was retried before this attempt.
    pub retries: i32,
    /// The trace and the span of the attempt.
    pub traceparent: String,
    /// The run that triggered this one, or that it repeats.
    pub parent_run: Option<i64>,
    /// Its slot's number on the node, once it has one.
    pub slot: Option<u32>,
    /// The definition by which it runs.
    pub spec: JobSpec,
}

impl Assignment {
    /// The request for a claimed run, as this session makes it.
    pub fn new(claimed: &Claimed, spec: JobSpec, session: i64) -> Self {
        Self {
            job_id: claimed.job_id.clone(),
            kind: claimed.kind.as_str().to_owned(),
            run_id: claimed.run_id,
            attempt: claimed.attempt,
            fence: claimed.fence,
            session,
            retries: claimed.retries,
            traceparent: trace(claimed),
            parent_run: claimed.parent_run,
            slot: None,
            spec,
        }
    }

    /// Run and attempt.
    pub fn id(&self) -> AttemptId {
        AttemptId {
            run_id: self.run_id,
            attempt: self.attempt,
        }
    }

    /// Whether it is a round of a continuous job: its end makes the next one.
    pub fn is_round(&self) -> bool {
        self.kind == RunKind::Continuous.as_str()
    }

    /// How this attempt is called in events and rows.
    pub fn about(&self) -> AttemptRef {
        AttemptRef {
            job_id: self.job_id.clone(),
            kind: self.kind.clone(),
            run_id: self.run_id,
            attempt: self.attempt,
            fence: self.fence,
        }
    }
}

/// The moment by which an attempt claimed at `claim_sent` must have been ended by its warden.
pub fn hard_end(spec: &JobSpec, claim_sent: BootInstant) -> Option<BootInstant> {
    spec.timeout
        .map(|timeout| claim_sent + timeout + spec.grace + OVERRUN_MARGIN)
}

/// What the warden is asked to start. `now` is of the database's clock.
/// Errors: A sentence for the run's reason: no command, or parameters that do not fit the definition.
pub fn request(
    claimed: &Claimed,
    assignment: &Assignment,
    address: &str,
    claim_sent: BootInstant,
    now: Timestamp,
) -> Result<SpawnRequest, String> {
    let spec = &assignment.spec;
    let given = match &claimed.params {
        Value::Object(map) => map.clone(),
        Value::Null => serde_json::Map::new(),
        other => return Err(format!("parameters must be a JSON object, not {other}")),
    };
    well_formed(spec)?;
    // What a row's run was given are columns of its row.
    let (row, given) = match &spec.table {
        Some(_) => (row(spec, &given)?, serde_json::Map::new()),
        None => (None, given),
    };
    let resolved = resolve_params(spec, &given).map_err(|e| e.to_string())?;
    key_fits(spec, claimed.key.as_deref())?;
    let filling = filling(claimed, resolved, assignment.slot.unwrap_or_default())?;
    let stdin = spec.stdin.clone().map(String::into_bytes);
    let (command, stdin) = match (&spec.flow, &spec.stream, &spec.command) {
        (Some(tasks), ..) => {
            let told = claimed.done.iter().flatten().cloned().collect();
            // Whoever may write rows can say that a task is done, and no signature covers that. There is a signature here
            // only where the node asks for one.
            let believed = claimed.signed.is_none() || spec.resume == Resume::SkipFinished;
            let (done, again) = if believed {
                (told, BTreeSet::new())
            } else {
                (BTreeSet::new(), told)
            };
            let handed = flow::FlowInput {
                flow: tasks.clone().filled(&filling),
                done,
                again,
            };
            let text = serde_json::to_vec(&handed).map_err(|e| e.to_string())?;
            (flow::command(spec.grace), Some(text))
        }
        (None, Some(list), _) => {
            let handed = stream::StreamInput::new(claimed, spec, list, filling.clone(), now)?;
            let text = serde_json::to_vec(&handed).map_err(|e| e.to_string())?;
            (stream::command(), Some(text))
        }
        (None, None, Some(command)) => match &filling.key {
            Some(key) => {
                key_is_safe(command, key)?;
                let argv = argv(command, &filling).map_err(|e| e.to_string())?;
                (Command::Argv(argv), stdin)
            }
            None => (fill(command, &filling).map_err(|e| e.to_string())?, stdin),
        },
        (None, None, None) => return Err("the job has no command".to_owned()),
    };
    if stdin.as_ref().is_some_and(|s| s.len() > MAX_STDIN) {
        return Err(format!("stdin is longer than {MAX_STDIN} bytes"));
    }
    let mut request = SpawnRequest::new(assignment.id(), assignment.fence, command);
    request.env = environment(claimed, spec, &filling, address);
    request
        .env
        .extend(row.map(|row| ("FARMHAND_ROW".to_owned(), row)));
    request.secrets.clone_from(&spec.secrets);
    request.cwd.clone_from(&spec.cwd);
    request.umask = spec.umask;
    request.user.clone_from(&spec.user);
    request.nice = spec.nice;
    request.stdin = stdin;
    request.limits = spec.limits;
    request.timeout_ms = spec.timeout.map(millis);
    request.grace_ms = millis(spec.grace);
    request.hard_end_ns = hard_end(spec, claim_sent).map(|at| at.0);
    request.isolation = spec.isolation;
    request.output_local = spec.output.local;
    request.progress_timeout_ms = spec.progress_timeout.map(millis);
    request.child_limits.clone_from(&spec.child_limits);
    request.extra = serde_json::to_value(assignment).map_err(|e| e.to_string())?;
    Ok(request)
}

/// What the command's placeholders stand for. Numbers and times of the database, so that none can be an option.
fn filling(claimed: &Claimed, params: serde_json::Map<String, Value>, slot: u32) -> Result<Filling, String> {
    let due = claimed.due_at.to_string();
    let instance = u32::try_from(claimed.instance)
        .ok()
        .filter(|_| !due.starts_with('-'));
    Ok(Filling {
        instance: instance.ok_or("the run's instance or its due instant is negative")?,
        params,
        slot,
        due,
        key: claimed.key.clone(),
    })
}

fn environment(
    claimed: &Claimed,
    spec: &JobSpec,
    filling: &Filling,
    address: &str,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("PATH".to_owned(), SECURE_PATH.to_owned())]);
    env.insert("TRACEPARENT".to_owned(), trace(claimed));
    env.extend(spec.env.clone());
    for (name, value) in &filling.params {
        env.insert(param_variable(name), param_text(value));
    }
    let mut set = |name: &str, value: String| env.insert(format!("FARMHAND_{name}"), value);
    set("JOB", claimed.job_id.clone());
    set("RUN", claimed.run_id.to_string());
    set("ATTEMPT", claimed.attempt.to_string());
    set("FENCE", claimed.fence.to_string());
    set("NODE", address.to_owned());
    set("DUE", filling.due.clone());
    set("INSTANCE", filling.instance.to_string());
    set("INSTANCES", claimed.instances.to_string());
    set("SLOT", filling.slot.to_string());
    set("PARAMS", Value::Object(filling.params.clone()).to_string());
    if let Some(key) = &claimed.key {
        set("KEY", key.clone());
    }
    // A stream's is for its engine.
    if let (Some(checkpoint), None) = (&claimed.checkpoint, &spec.stream) {
        set("CHECKPOINT", checkpoint.clone());
    }
    if let Some(parent) = claimed.parent_run {
        set("PARENT_RUN", parent.to_string());
    }
    if let Some(parents) = &claimed.parents {
        set("PARENT_RUNS", parents.to_string());
    }
    env
}

fn trace(claimed: &Claimed) -> String {
    let firing = claimed.firing.unwrap_or(claimed.run_id);
    traceparent(
        &claimed.job_id,
        claimed.due_at,
        firing,
        claimed.run_id,
        claimed.attempt,
    )
}
