//! Whether a job and a node are well: the one decision that command line, page, API, metrics and verdict show.

/// What is known about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobFacts {
    pub state: JobState,
    /// Its instant passed more than ten seconds ago, and no agent fired it.
    pub overdue: bool,
    /// Firings that failed since the last that succeeded.
    pub failures: i32,
    /// A run has waited a minute, or five for a pool, a lock or a rate. One that was taken over or tried again waits from then on.
    pub waiting: bool,
    /// Whether a run of it is under way.
    pub running: bool,
}

crate::words! {
    /// Whether a job's schedule goes on.
    JobState {
        /// It does.
        Enabled = "enabled",
        /// Somebody paused it.
        Paused = "paused",
        /// Its definition says `enabled = false`.
        Disabled = "disabled",
        /// Its definition says `observe = true`: its instants are recorded, and nothing of it is executed.
        Observing = "observing",
    }
}

crate::words! {
    /// How a job is; what is worse comes first.
    #[derive(Default)]
    JobHealth {
        /// Its instants pass and no agent fires them.
        Late = "late",
        /// Its last firing failed.
        Failing = "failing",
        /// A run cannot start.
        Waiting = "waiting",
        /// A run of it is under way.
        Running = "running",
        /// Its definition says observe = true: its instants are recorded, and nothing of it is executed.
        Observing = "observing",
        /// Somebody paused it.
        Paused = "paused",
        /// Its definition says enabled = false.
        Disabled = "disabled",
        /// None of the others.
        #[default]
        Enabled = "enabled",
    }
}

crate::words! {
    /// How something is, in one word; of the farm, how the worst of it is.
    Level {
        /// Nothing is late, stuck or failing.
        Well = "well",
        /// Some jobs fail, or a node is missing, and the farm works.
        Attention = "attention",
        /// Something that is due does not run, or nobody can tell whether it does.
        Trouble = "trouble",
    }
}

crate::words! {
    /// How a node is.
    NodeState {
        /// It takes runs.
        Ready = "ready",
        /// Somebody wants it to claim nothing.
        Cordoned = "cordoned",
        /// Somebody wants it drained, or its agent ends when what runs has ended.
        Draining = "draining",
        /// It is ready, and claims nothing: its machine refuses to start processes, say.
        Blocked = "blocked",
        /// Its session is open, and its lease is over.
        Expired = "expired",
        /// Another node ended its session within the last day.
        Lost = "lost",
        /// Its agent ended the session in good order.
        Closed = "closed",
    }
}

/// What is known about a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub open: bool,
    /// Its lease is over by the database's clock.
    pub over: bool,
    /// Somebody wants it drained, or its agent ends when what runs has ended.
    pub draining: bool,
    /// Somebody wants it to claim nothing.
    pub cordoned: bool,
    /// Its machine refused to start the run that it tried last.
    pub refuses: bool,
    /// Another node ended its last session within the last day.
    pub ended_lately: bool,
}

impl NodeState {
    /// As `farmhand.shown_state` decides in the database.
    pub fn of(facts: &NodeFacts) -> Self {
        match facts {
            NodeFacts {
                open: false,
                ended_lately: true,
                ..
            } => Self::Lost,
            NodeFacts { open: false, .. } => Self::Closed,
            NodeFacts { over: true, .. } => Self::Expired,
            NodeFacts { draining: true, .. } => Self::Draining,
            NodeFacts { cordoned: true, .. } => Self::Cordoned,
            NodeFacts { refuses: true, .. } => Self::Blocked,
            _ => Self::Ready,
        }
    }

    /// What a verdict makes of it, by itself.
    pub fn level(self) -> Level {
        match self {
            Self::Blocked | Self::Expired | Self::Lost => Level::Attention,
            Self::Ready | Self::Cordoned | Self::Draining | Self::Closed => Level::Well,
        }
    }
}

impl JobHealth {
    /// The state of a job with these facts.
    pub fn of(facts: &JobFacts) -> Self {
        match facts {
            JobFacts {
                state: JobState::Disabled,
                ..
            } => Self::Disabled,
            JobFacts {
                state: JobState::Paused,
                ..
            } => Self::Paused,
            JobFacts { overdue: true, .. } => Self::Late,
            JobFacts {
                state: JobState::Observing,
                ..
            } => Self::Observing,
            JobFacts { failures: 1.., .. } => Self::Failing,
            JobFacts { waiting: true, .. } => Self::Waiting,
            JobFacts { running: true, .. } => Self::Running,
            _ => Self::Enabled,
        }
    }

    /// How much a verdict makes of it.
    pub fn level(self) -> Level {
        match self {
            Self::Late => Level::Trouble,
            Self::Failing | Self::Waiting => Level::Attention,
            Self::Running | Self::Observing | Self::Paused | Self::Disabled | Self::Enabled => Level::Well,
        }
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
