//! What a state's colour means, on the page and on terminals.

use crate::health::{JobHealth, Level, NodeState};
use crate::run::RunState;

crate::words! {
    /// What a colour means. Never shown without the word.
    Tone {
        /// As it should be.
        Ok = "ok",
        /// It went wrong, or is late.
        Bad = "bad",
        /// Somebody should know.
        Warn = "warn",
        /// Lost with its node.
        Lost = "lost",
        /// It is running.
        Run = "run",
        /// Nothing to be told.
        Idle = "idle",
    }
}

impl RunState {
    /// What its colour means.
    pub fn tone(self) -> Tone {
        match self {
            Self::Due | Self::Skipped => Tone::Idle,
            Self::Running => Tone::Run,
            Self::Succeeded => Tone::Ok,
            Self::Failed | Self::TimedOut => Tone::Bad,
            Self::Cancelled => Tone::Warn,
            Self::Lost => Tone::Lost,
        }
    }
}

impl NodeState {
    /// What its colour means.
    pub fn tone(self) -> Tone {
        match self {
            Self::Ready => Tone::Ok,
            Self::Blocked | Self::Cordoned | Self::Draining | Self::Expired => Tone::Warn,
            Self::Lost => Tone::Lost,
            Self::Closed => Tone::Idle,
        }
    }
}

impl JobHealth {
    /// What its colour means.
    pub fn tone(self) -> Tone {
        match self {
            Self::Late | Self::Failing => Tone::Bad,
            Self::Waiting | Self::Paused => Tone::Warn,
            Self::Running => Tone::Run,
            Self::Observing | Self::Disabled => Tone::Idle,
            Self::Enabled => Tone::Ok,
        }
    }
}

impl Level {
    /// What its colour means.
    pub fn tone(self) -> Tone {
        match self {
            Self::Well => Tone::Ok,
            Self::Attention => Tone::Warn,
            Self::Trouble => Tone::Bad,
        }
    }
}

impl Tone {
    /// Of the word of a run's, a node's or a job's state, or of a level. None of any other word.
    pub fn of(word: &str) -> Option<Self> {
        let run = word.parse().map(RunState::tone);
        let node = || word.parse().map(NodeState::tone);
        let job = || word.parse().map(JobHealth::tone);
        let level = || word.parse().map(Level::tone);
        let tone = run.or_else(|_| node()).or_else(|_| job());
        tone.or_else(|_| level()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_tone_by_its_word_and_other_words_have_none() {
        for state in RunState::ALL {
            assert_eq!(Tone::of(state.as_str()), Some(state.tone()));
        }
        for state in NodeState::ALL {
            assert_eq!(Tone::of(state.as_str()), Some(state.tone()));
        }
        for job in JobHealth::ALL {
            assert_eq!(Tone::of(job.as_str()), Some(job.tone()));
        }
        for level in Level::ALL {
            assert_eq!(Tone::of(level.as_str()), Some(level.tone()));
        }
        assert_eq!(Tone::of("backup"), None);
    }
}
