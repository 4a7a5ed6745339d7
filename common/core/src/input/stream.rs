//! A stream as an agent hands it to the engine that runs it inside an attempt, and what its end says.

use crate::attempt::Claimed;
use crate::definition::{Command, Filling, JobSpec, StreamSpec, fill};
use crate::document::millis;
use crate::due;
use crate::stream::Checkpoint;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The engine's exit code when it came to the end of the list and lines of it failed.
pub const ITEMS_FAILED: i32 = 10;

/// On the engine's stdin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamInput {
    /// Run for each line, with its placeholders: `{slot}` is the number of who handles it.
    pub command: Command,
    /// What the command's placeholders stand for.
    #[serde(default)]
    pub filling: Filling,
    pub from: From,
    /// Lines at a time.
    pub workers: u32,
    /// What handles a line and is silent for longer is killed.
    pub progress_timeout_ms: Option<u64>,
    /// A line that failed so often is given up.
    pub max_item_failures: u32,
    /// Between SIGTERM and SIGKILL.
    pub grace_ms: u64,
    pub checkpoint: Option<String>,
    /// Lines that are recorded as given up.
    pub recorded: Vec<u64>,
    /// Lines that failed in another run and are run again: these alone, as the list has them now.
    pub only: Option<Vec<u64>>,
    /// How often the engine says that it lives, when somebody waits for it.
    pub alive_ms: Option<u64>,
}

/// Where the lines come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    File {
        path: String,
        /// How long lines that are appended are waited for.
        follow: Follow,
    },
    /// Prints the lines.
    Command(Command),
}

/// How long lines that are appended are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// Not at all.
    No,
    /// From the start of the attempt.
    For {
        /// Milliseconds.
        ms: u64,
    },
    /// Until the attempt is ended.
    ForEver,
}

/// The engine, as an attempt's command: this very binary, whatever has become of its file since.
pub fn command() -> Command {
    Command::Argv(["/proc/self/exe", "stream-engine"].map(str::to_owned).to_vec())
}

impl StreamInput {
    /// What a claimed run of a stream has to do. `now` is of the database's clock.
    pub fn new(
        claimed: &Claimed,
        spec: &JobSpec,
        stream: &StreamSpec,
        filling: Filling,
        now: Timestamp,
    ) -> Result<Self, String> {
        let filled = |command: &Command| fill(command, &filling).map_err(|e| e.to_string());
        let command = spec.command.as_ref().ok_or("the job has no command")?;
        filled(command)?;
        let items = claimed.items.clone().unwrap_or_default();
        let path = stream.path_at(claimed.due_at, &spec.timezone);
        let from = match (&stream.list, &items.replay) {
            (Some(list), _) => From::Command(filled(list)?),
            (None, replay) => From::File {
                path: path?.ok_or("the stream has no list")?,
                follow: match replay {
                    Some(_) => Follow::No,
                    None => follow(claimed, spec, stream, now)?,
                },
            },
        };
        Ok(Self {
            command: command.clone(),
            filling,
            checkpoint: claimed.checkpoint.clone().filter(|_| items.replay.is_none()),
            from,
            only: items.replay,
            workers: stream.workers,
            progress_timeout_ms: stream.progress_timeout.map(millis),
            max_item_failures: stream.max_item_failures,
            grace_ms: millis(spec.grace),
            recorded: items.recorded,
            alive_ms: spec.progress_timeout.map(|silence| millis(silence / 3).max(1)),
        })
    }
}

/// Until the next due instant. Counted from now on, so that the node's own wall clock does not matter.
fn follow(claimed: &Claimed, spec: &JobSpec, stream: &StreamSpec, now: Timestamp) -> Result<Follow, String> {
    if !stream.follow {
        return Ok(Follow::No);
    }
    if spec.schedule.is_empty() || spec.is_continuous() {
        return Ok(Follow::ForEver);
    }
    let (schedule, policy) = due::compile(&claimed.job_id, spec).map_err(|e| e.to_string())?;
    let left = due::next_run(&schedule, &policy, claimed.due_at).map(|next| next.duration_since(now));
    Ok(left.map_or(Follow::ForEver, |left| Follow::For {
        ms: u64::try_from(left.as_millis()).unwrap_or(0),
    }))
}

/// What the last report of an engine says about its end.
pub fn reason(checkpoint: Option<&str>) -> Option<String> {
    Checkpoint::parse(checkpoint?).ok()?.why
}
