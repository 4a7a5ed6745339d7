//! A tone, a shape and a word for everything that has a state.

use farmhand_core::health::JobHealth;
use farmhand_core::run::RunState;
use farmhand_store::Severity;
use maud::{Markup, html};

use super::icons::Icon;

/// What a colour means. Never shown without a shape and a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Ok,
    Bad,
    Warn,
    Lost,
    Run,
    Idle,
}

impl Tone {
    /// The end of the class names that the style sheet has for it.
    pub fn class(self) -> &'static str {
        match self {
            Tone::Ok => "ok",
            Tone::Bad => "bad",
            Tone::Warn => "warn",
            Tone::Lost => "lost",
            Tone::Run => "run",
            Tone::Idle => "idle",
        }
    }
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    pub tone: Tone,
    pub icon: Icon,
    pub word: &'static str,
}

const fn sign(tone: Tone, icon: Icon, word: &'static str) -> Sign {
    Sign { tone, icon, word }
}

impl Sign {
    pub fn markup(self) -> Markup {
        html! { span class=(format!("state t-{}", self.tone.class())) { (self.icon.markup()) (self.word) } }
    }
}

/// Of a run.
pub fn run(state: RunState) -> Sign {
    match state {
        RunState::Due => sign(Tone::Idle, Icon::Wait, "due"),
        RunState::Running => sign(Tone::Run, Icon::Play, "running"),
        RunState::Succeeded => sign(Tone::Ok, Icon::Check, "succeeded"),
        RunState::Failed => sign(Tone::Bad, Icon::Cross, "failed"),
        RunState::TimedOut => sign(Tone::Bad, Icon::Clock, "timed out"),
        RunState::Cancelled => sign(Tone::Warn, Icon::Stop, "cancelled"),
        RunState::Lost => sign(Tone::Lost, Icon::Lost, "lost"),
        RunState::Skipped => sign(Tone::Idle, Icon::Skip, "skipped"),
    }
}

/// Of a task, an attempt or anything else that is named by a word of the database.
pub fn named(outcome: &str) -> Sign {
    match outcome {
        "released" => sign(Tone::Idle, Icon::Again, "given back"),
        "never_started" => sign(Tone::Idle, Icon::Skip, "never started"),
        "left_out" => sign(Tone::Idle, Icon::Skip, "left out"),
        "done" => sign(Tone::Ok, Icon::Check, "done earlier"),
        other => (other.parse()).map_or(sign(Tone::Idle, Icon::Wait, "unknown"), run),
    }
}

/// Of a node.
pub fn node(state: &str) -> Sign {
    match state {
        "ready" => sign(Tone::Ok, Icon::Check, "ready"),
        "blocked" => sign(Tone::Warn, Icon::Alert, "blocked"),
        "cordoned" => sign(Tone::Warn, Icon::Pause, "cordoned"),
        "draining" => sign(Tone::Warn, Icon::Arrow, "draining"),
        "lost" => sign(Tone::Lost, Icon::Lost, "lost"),
        "expired" => sign(Tone::Warn, Icon::Alert, "expired"),
        "closed" => sign(Tone::Idle, Icon::Power, "closed"),
        // In the picture of one run a node stands as its attempt there does.
        other => named(other),
    }
}

/// Of a job.
pub fn job(enabled: bool, paused: bool) -> Sign {
    match (enabled, paused) {
        (false, _) => sign(Tone::Idle, Icon::Power, "disabled"),
        (_, true) => sign(Tone::Warn, Icon::Pause, "paused"),
        _ => sign(Tone::Ok, Icon::Check, "enabled"),
    }
}

/// Of a job, with how it is.
pub fn health(health: JobHealth) -> Sign {
    match health {
        JobHealth::Late => sign(Tone::Bad, Icon::Clock, "late"),
        JobHealth::Failing => sign(Tone::Bad, Icon::Cross, "failing"),
        JobHealth::Waiting => sign(Tone::Warn, Icon::Wait, "waiting"),
        JobHealth::Running => run(RunState::Running),
        JobHealth::Disabled => job(false, false),
        JobHealth::Paused => job(true, true),
        JobHealth::Enabled => job(true, false),
    }
}

/// An event, by its severity, under the name that `farmhand events` gives it.
pub fn event(severity: Severity, kind: &str) -> Markup {
    let (tone, icon) = match severity {
        Severity::Error => (Tone::Bad, Icon::Cross),
        Severity::Warning => (Tone::Warn, Icon::Alert),
        Severity::Info | Severity::Debug => (Tone::Idle, Icon::Play),
    };
    let icon = match kind {
        "takeover" => Icon::Arrow,
        "fenced" | "fence_kill" => Icon::Fence,
        "skipped" => Icon::Skip,
        "retry" | "retry_by_hand" => Icon::Again,
        _ => icon,
    };
    html! { span class=(format!("state t-{}", tone.class())) { (icon.markup()) (kind.replace('_', " ")) } }
}

/// Of a gate.
pub const OPEN: Sign = sign(Tone::Ok, Icon::Check, "open");
pub const CLOSED: Sign = sign(Tone::Bad, Icon::Stop, "closed");

/// Of what is still to come.
pub const NOT_YET: Sign = sign(Tone::Idle, Icon::Wait, "not yet");

#[cfg(test)]
mod tests {
    use farmhand_store::reading::NodeState;

    use super::*;

    #[test]
    fn the_page_has_the_words_that_commands_and_metrics_have() {
        for state in NodeState::ALL {
            assert_eq!(node(state.as_str()).word, state.as_str());
        }
        for state in JobHealth::ALL {
            assert_eq!(health(state).word, state.as_str());
        }
    }
}
