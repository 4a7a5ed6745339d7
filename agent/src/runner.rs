//! From a claimed run to what the warden is asked to do, and from what it reports to what is written down.
//!
//! Pure: [`crate::agent`] talks to the warden, [`crate::reporter`] to the database.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_common::core::continuous::after_round;
use farmhand_common::core::definition::{Command, JobSpec, argv, param_text, param_variable, resolve_params};
use farmhand_common::core::lease::BootInstant;
use farmhand_common::core::run::{AfterAttempt, AttemptEnd, Outcome, after_attempt};
use farmhand_common::store::Kind;
use farmhand_common::store::protocol::{Claimed, LostWhy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::events::AttemptRef;
use crate::flow::handed::{self, Handed};
use crate::stream::handed as stream;
use crate::warden::protocol::{AttemptId, AttemptResult, Ending, KillReason, MAX_STDIN, SpawnRequest, Stage};

/// Where cron's jobs find their programs too.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Between the moment the warden should have ended an attempt and the kernel ending the warden for not
/// having done so: time for a slow start and a busy machine.
pub const OVERRUN_MARGIN: Duration = Duration::from_secs(10);

/// The kernel takes 128 KiB for one argument or variable, `FARMHAND_KEY=` and a NUL included.
const MAX_KEY: usize = 128 * 1024 - 16;

/// What is known of an attempt beyond its process. Kept by the warden too, so that an adopting agent has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assignment {
    pub job_id: String,
    pub kind: String,
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    /// The session that claimed it.
    pub session: i64,
    pub retries: i32,
    pub spec: JobSpec,
}

impl Assignment {
    pub fn new(claimed: &Claimed, spec: JobSpec, session: i64) -> Self {
        Self {
            job_id: claimed.job_id.clone(),
            kind: claimed.kind.as_str().to_owned(),
            run_id: claimed.run_id,
            attempt: claimed.attempt,
            fence: claimed.fence,
            session,
            retries: claimed.retries,
            spec,
        }
    }

    pub fn id(&self) -> AttemptId {
        AttemptId {
            run_id: self.run_id,
            attempt: self.attempt,
        }
    }

    /// Whether it is a round of a continuous job: its end makes the next one.
    pub fn is_round(&self) -> bool {
        self.kind == Kind::Continuous.as_str()
    }

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
///
/// # Errors
/// A sentence for the run's reason: no command, or parameters that do not fit the definition.
pub fn request(
    claimed: &Claimed,
    assignment: &Assignment,
    address: &str,
    slot: u32,
    claim_sent: BootInstant,
    now: Timestamp,
) -> Result<SpawnRequest, String> {
    let spec = &assignment.spec;
    let given = match &claimed.params {
        Value::Object(map) => map.clone(),
        Value::Null => serde_json::Map::new(),
        other => return Err(format!("parameters must be a JSON object, not {other}")),
    };
    let resolved = resolve_params(spec, &given).map_err(|e| e.to_string())?;
    let stdin = spec.stdin.clone().map(String::into_bytes);
    let (command, stdin) = match (&spec.flow, &spec.stream, &spec.command) {
        (Some(flow), ..) => {
            let handed = Handed {
                flow: flow.clone(),
                done: claimed.done.iter().flatten().cloned().collect(),
            };
            let text = serde_json::to_vec(&handed).map_err(|e| e.to_string())?;
            (handed::command(), Some(text))
        }
        (None, Some(list), _) => {
            let handed = stream::Handed::new(claimed, spec, list, &resolved, now)?;
            let text = serde_json::to_vec(&handed).map_err(|e| e.to_string())?;
            (stream::command(), Some(text))
        }
        (None, None, Some(command @ Command::Argv(_))) => {
            let argv = argv(command, &resolved).map_err(|e| e.to_string())?;
            (Command::Argv(argv), stdin)
        }
        (None, None, Some(command)) => (command.clone(), stdin),
        (None, None, None) => return Err("the job has no command".to_owned()),
    };
    let command = match (&spec.table, &claimed.key) {
        (_, Some(key)) => with_key(command, key)?,
        (Some(_), None) => return Err("a table job runs for a row, and this run has none".to_owned()),
        (None, None) => command,
    };
    if stdin.as_ref().is_some_and(|s| s.len() > MAX_STDIN) {
        return Err(format!("stdin is longer than {MAX_STDIN} bytes"));
    }
    let mut request = SpawnRequest::new(assignment.id(), assignment.fence, command);
    request.env = environment(claimed, spec, &resolved, address, slot);
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

/// A row's key is the last argument, `$1` of a script.
fn with_key(command: Command, key: &str) -> Result<Command, String> {
    if key.len() > MAX_KEY {
        return Err(format!(
            "the row's key has {} bytes, {MAX_KEY} is the most that a command can be given",
            key.len()
        ));
    }
    let mut argv = match command {
        Command::Argv(argv) => argv,
        Command::Shell(script) => ["/bin/sh", "-c", &script, "/bin/sh"].map(str::to_owned).to_vec(),
    };
    argv.push(key.to_owned());
    Ok(Command::Argv(argv))
}

fn environment(
    claimed: &Claimed,
    spec: &JobSpec,
    resolved: &serde_json::Map<String, Value>,
    address: &str,
    slot: u32,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]);
    env.extend(spec.env.clone());
    for (name, value) in resolved {
        env.insert(param_variable(name), param_text(value));
    }
    let mut set = |name: &str, value: String| env.insert(format!("FARMHAND_{name}"), value);
    set("JOB", claimed.job_id.clone());
    set("RUN", claimed.run_id.to_string());
    set("ATTEMPT", claimed.attempt.to_string());
    set("FENCE", claimed.fence.to_string());
    set("NODE", address.to_owned());
    set("DUE", claimed.due_at.to_string());
    set("INSTANCE", claimed.instance.to_string());
    set("INSTANCES", claimed.instances.to_string());
    set("SLOT", slot.to_string());
    set("PARAMS", Value::Object(resolved.clone()).to_string());
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

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// How an attempt ended, as it is to be written down.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The run is over.
    Final {
        outcome: Outcome,
        reason: Option<String>,
        /// Until the next round of a continuous job.
        again: Option<Duration>,
    },
    /// Due again after `delay`.
    Retry {
        outcome: Outcome,
        reason: Option<String>,
        delay: Duration,
    },
    /// Ended by us before it could end itself: as `on_lost` says.
    Lost { why: LostWhy },
    /// This node would not execute the definition; whether another might, the database is asked.
    Refused { why: String },
    /// Another node might: due again after `delay`.
    GivenBack { reason: String, delay: Duration },
}

/// What becomes of a run that this node would not execute, once it is known whether another might.
pub fn after_refusal(attempt: i32, why: String, others: bool) -> Verdict {
    if others {
        // At once, because whoever refused it leaves it to the others now. Later ones wait for longer and longer, so that
        // a farm whose nodes take turns in refusing, or forget that they did, does not do it without a pause.
        let delay = match attempt {
            ..=1 => Duration::ZERO,
            n => Duration::from_millis(50 << (n - 2).min(10)),
        };
        return Verdict::GivenBack { reason: why, delay };
    }
    Verdict::Final {
        outcome: Outcome::Failed,
        reason: Some(why),
        again: None,
    }
}

/// Decides what the end of an attempt means. `cancelled`: somebody asked for its end; `random` is uniform
/// over all of `u64`.
pub fn verdict(a: &Assignment, result: &AttemptResult, cancelled: bool, random: u64) -> Verdict {
    let end = match (result.killed, &result.ending) {
        (Some(KillReason::Lease), _) => return Verdict::Lost { why: LostWhy::Lease },
        (Some(KillReason::Shutdown), _) => return Verdict::Lost { why: LostWhy::Drain },
        (Some(KillReason::Fenced | KillReason::Superseded), _) => {
            return Verdict::Lost { why: LostWhy::Fenced };
        }
        (Some(KillReason::Timeout | KillReason::Progress), _) => AttemptEnd::TimedOut,
        (Some(KillReason::Cancel), _) => AttemptEnd::Cancelled,
        (_, Ending::StartFailed(_)) => AttemptEnd::NotStarted,
        (_, Ending::Signaled { signal, .. }) => AttemptEnd::Signalled(*signal),
        (Some(KillReason::LimitMemory | KillReason::LimitProcesses), Ending::Exited { .. }) => {
            AttemptEnd::Signalled(9)
        }
        (None, Ending::Exited { code }) => AttemptEnd::Exited(*code),
    };
    let said = a
        .spec
        .stream
        .is_some()
        .then(|| stream::reason(result.checkpoint.as_deref()));
    let reason = match said.flatten() {
        Some(why) if result.killed.is_none() => Some(why),
        _ => reason(result),
    };
    if a.is_round() {
        return round_over(a, end, reason, cancelled, random);
    }
    if let Ending::StartFailed(failure) = &result.ending
        && failure.stage == Stage::Signature
        && !cancelled
    {
        // Another attempt here would be refused as well.
        return Verdict::Refused {
            why: failure.message.clone(),
        };
    }
    if let AttemptEnd::Exited(code) = end
        && a.spec.idle_exit.contains(&code)
    {
        // A run by hand of a continuous job: it found nothing to do, and there is nothing to repeat.
        return Verdict::Final {
            outcome: Outcome::Succeeded,
            reason: Some("idle".to_owned()),
            again: None,
        };
    }
    if a.spec.stream.is_some() && end == AttemptEnd::Exited(stream::ITEMS_FAILED) && !cancelled {
        // Nothing is left that another attempt could do.
        return Verdict::Final {
            outcome: Outcome::Failed,
            reason,
            again: None,
        };
    }
    match after_attempt(end, &a.spec.retry, a.retries.unsigned_abs(), cancelled, random) {
        AfterAttempt::Final(outcome) => Verdict::Final {
            outcome,
            reason,
            again: None,
        },
        AfterAttempt::Retry { delay } => {
            let outcome = if end == AttemptEnd::TimedOut {
                Outcome::TimedOut
            } else {
                Outcome::Failed
            };
            Verdict::Retry {
                outcome,
                reason,
                delay,
            }
        }
    }
}

fn round_over(
    a: &Assignment,
    end: AttemptEnd,
    reason: Option<String>,
    cancelled: bool,
    random: u64,
) -> Verdict {
    let round = after_round(end, &a.spec, a.retries.unsigned_abs(), cancelled, random);
    Verdict::Final {
        outcome: round.outcome,
        reason: if round.idle {
            Some("idle".to_owned())
        } else {
            reason
        },
        again: Some(round.again),
    }
}

/// The end of a run that could not be started, as if its command had failed.
pub fn refusal(a: &Assignment, why: String, random: u64) -> Verdict {
    if a.is_round() {
        return round_over(a, AttemptEnd::NotStarted, Some(why), false, random);
    }
    Verdict::Final {
        outcome: Outcome::Failed,
        reason: Some(why),
        again: None,
    }
}

/// One line for people; `None` for a plain exit.
fn reason(result: &AttemptResult) -> Option<String> {
    let why = match (result.killed, &result.ending) {
        (_, Ending::StartFailed(failure)) => failure.message.clone(),
        (Some(KillReason::Timeout), _) => "ran past its timeout".to_owned(),
        (Some(KillReason::Progress), _) => "made no progress for too long".to_owned(),
        (Some(KillReason::Cancel), _) => "cancelled while running".to_owned(),
        (Some(KillReason::LimitMemory), _) => "went over its memory limit".to_owned(),
        (Some(KillReason::LimitProcesses), _) => "went over its process limit".to_owned(),
        (Some(KillReason::Lease), _) => "the lease ended".to_owned(),
        (Some(KillReason::Shutdown), _) => "the agent was told to leave".to_owned(),
        (Some(KillReason::Fenced | KillReason::Superseded), _) => "the run had moved on".to_owned(),
        (None, Ending::Exited { code: 0 }) => return None,
        (None, Ending::Exited { code }) => format!("exit code {code}"),
        (None, Ending::Signaled { signal, .. }) => format!("ended by signal {signal}"),
    };
    Some(why)
}

/// What goes into the event and the history besides outcome and reason.
pub fn detail(result: &AttemptResult) -> Value {
    json!({
        "exit_code": result.exit_code(),
        "signal": result.signal(),
        "cpu_ms": (result.user_us + result.sys_us) / 1000,
        "max_rss_bytes": result.max_rss_bytes,
        "leftovers": result.leftovers,
    })
}
