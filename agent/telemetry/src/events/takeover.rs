//! Why runs are taken over.

/// Why a run was free to be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeoverCause {
    /// The session was expired, or the warden died.
    Expired,
    /// The node was drained, or gave the run back.
    Drain,
    /// Somebody expired the session by command.
    Forced,
}

impl TakeoverCause {
    /// As events and metrics say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Drain => "drain",
            Self::Forced => "forced",
        }
    }
}
