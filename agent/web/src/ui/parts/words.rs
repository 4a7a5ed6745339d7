//! A colour, a shape and a word for everything that has a state.

pub use farmhand_core::colour::Colour;
use farmhand_core::health::{JobHealth, NodeState};
use farmhand_core::run::RunState;
use farmhand_store::Severity;
use maud::{Markup, html};

use super::icons::Icon;

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    pub colour: Colour,
    pub icon: Icon,
    pub word: &'static str,
}

const fn sign(colour: Colour, icon: Icon, word: &'static str) -> Sign {
    Sign { colour, icon, word }
}

impl Sign {
    pub fn markup(self) -> Markup {
        html! { span class=(format!("state t-{}", self.colour.as_str())) { (self.icon.markup()) (self.word) } }
    }
}

/// Of a run.
pub fn run(state: RunState) -> Sign {
    let (icon, word) = match state {
        RunState::Due => (Icon::Wait, "due"),
        RunState::Running => (Icon::Play, "running"),
        RunState::Succeeded => (Icon::Check, "succeeded"),
        RunState::Failed => (Icon::Cross, "failed"),
        RunState::TimedOut => (Icon::Clock, "timed out"),
        RunState::Cancelled => (Icon::Stop, "cancelled"),
        RunState::Lost => (Icon::Lost, "lost"),
        RunState::Skipped => (Icon::Skip, "skipped"),
    };
    sign(state.colour(), icon, word)
}

/// Of a task, an attempt or anything else that is named by a word of the database.
pub fn named(outcome: &str) -> Sign {
    match outcome {
        "released" => sign(Colour::Idle, Icon::Again, "given back"),
        "never_started" => sign(Colour::Idle, Icon::Skip, "never started"),
        "left_out" => sign(Colour::Idle, Icon::Skip, "left out"),
        "done" => sign(Colour::Ok, Icon::Check, "done earlier"),
        other => (other.parse()).map_or(sign(Colour::Idle, Icon::Wait, "unknown"), run),
    }
}

/// Of a node. In the picture of one run a node stands as its attempt there does.
pub fn node(state: &str) -> Sign {
    let Ok(state) = state.parse::<NodeState>() else {
        return named(state);
    };
    let icon = match state {
        NodeState::Ready => Icon::Check,
        NodeState::Blocked | NodeState::Expired => Icon::Alert,
        NodeState::Cordoned => Icon::Pause,
        NodeState::Draining => Icon::Arrow,
        NodeState::Lost => Icon::Lost,
        NodeState::Closed => Icon::Power,
    };
    sign(state.colour(), icon, state.as_str())
}

/// Of a job.
pub fn health(health: JobHealth) -> Sign {
    let icon = match health {
        JobHealth::Late => Icon::Clock,
        JobHealth::Failing => Icon::Cross,
        JobHealth::Waiting => Icon::Wait,
        JobHealth::Running => Icon::Play,
        JobHealth::Observing => Icon::Skip,
        JobHealth::Disabled => Icon::Power,
        JobHealth::Paused => Icon::Pause,
        JobHealth::Enabled => Icon::Check,
    };
    sign(health.colour(), icon, health.as_str())
}

/// An event, by its severity, under the name that `farmhand events` gives it.
pub fn event(severity: Severity, kind: &str) -> Markup {
    let (colour, icon) = match severity {
        Severity::Error => (Colour::Bad, Icon::Cross),
        Severity::Warning => (Colour::Warn, Icon::Alert),
        Severity::Info | Severity::Debug => (Colour::Idle, Icon::Play),
    };
    let icon = match kind {
        "takeover" => Icon::Arrow,
        "fenced" | "fence_kill" => Icon::Fence,
        "skipped" => Icon::Skip,
        "retry" | "retry_by_hand" | "retry_many" => Icon::Again,
        _ => icon,
    };
    html! { span class=(format!("state t-{}", colour.as_str())) { (icon.markup()) (kind.replace('_', " ")) } }
}

/// Of a gate.
pub const OPEN: Sign = sign(Colour::Ok, Icon::Check, "open");
pub const CLOSED: Sign = sign(Colour::Bad, Icon::Stop, "closed");

/// Of what is still to come.
pub const NOT_YET: Sign = sign(Colour::Idle, Icon::Wait, "not yet");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_words_that_commands_and_metrics_have() {
        for state in NodeState::ALL {
            assert_eq!(node(state.as_str()).word, state.as_str());
        }
        for state in JobHealth::ALL {
            assert_eq!(health(*state).word, state.as_str());
        }
    }
}
