//! What a state's colour means, on the page and on terminals.

use crate::health::{JobHealth, Level, NodeState};
use crate::run::RunState;

crate::words! {
    /// What a colour means. Never shown without the word.
    Colour {
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
    pub fn colour(self) -> Colour {
        match self {
            Self::Due | Self::Skipped => Colour::Idle,
            Self::Running => Colour::Run,
            Self::Succeeded => Colour::Ok,
            Self::Failed | Self::TimedOut => Colour::Bad,
            Self::Cancelled => Colour::Warn,
            Self::Lost => Colour::Lost,
        }
    }
}

impl NodeState {
    /// What its colour means.
    pub fn colour(self) -> Colour {
        match self {
            Self::Ready => Colour::Ok,
            Self::Blocked | Self::Cordoned | Self::Draining | Self::Expired => Colour::Warn,
            Self::Lost => Colour::Lost,
            Self::Closed => Colour::Idle,
        }
    }
}

impl JobHealth {
    /// What its colour means.
    pub fn colour(self) -> Colour {
        match self {
            Self::Late | Self::Failing => Colour::Bad,
            Self::Waiting | Self::Paused => Colour::Warn,
            Self::Running => Colour::Run,
            Self::Observing | Self::Disabled => Colour::Idle,
            Self::Enabled => Colour::Ok,
        }
    }
}

impl Level {
    /// What its colour means.
    pub fn colour(self) -> Colour {
        match self {
            Self::Well => Colour::Ok,
            Self::Attention => Colour::Warn,
            Self::Trouble => Colour::Bad,
        }
    }
}

impl Colour {
    /// Of the word of a run's, a node's or a job's state, or of a level. None of any other word.
    pub fn of(word: &str) -> Option<Self> {
        let run = word.parse().map(RunState::colour);
        let node = || word.parse().map(NodeState::colour);
        let job = || word.parse().map(JobHealth::colour);
        let level = || word.parse().map(Level::colour);
        let colour = run.or_else(|_| node()).or_else(|_| job());
        colour.or_else(|_| level()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_tone_by_its_word_and_other_words_have_none() {
        for state in RunState::ALL {
            assert_eq!(Colour::of(state.as_str()), Some(state.colour()));
        }
        for state in NodeState::ALL {
            assert_eq!(Colour::of(state.as_str()), Some(state.colour()));
        }
        for job in JobHealth::ALL {
            assert_eq!(Colour::of(job.as_str()), Some(job.colour()));
        }
        for level in Level::ALL {
            assert_eq!(Colour::of(level.as_str()), Some(level.colour()));
        }
        assert_eq!(Colour::of("backup"), None);
    }
}
