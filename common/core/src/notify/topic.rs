//! What messages are about, and how they travel.

crate::words! {
    /// What a message is about.
    Topic {
        /// The first failed run after a success.
        Failure = "failure",
        /// The first success after one of the others.
        Recovery = "recovery",
        /// A run's node or warden was lost, and the run goes to another.
        Takeover = "takeover",
        /// A scheduled job has not succeeded when it should have.
        Deadline = "deadline",
        /// A run takes longer than usual.
        Slow = "slow",
        /// Somebody asked for it.
        Test = "test",
        /// Of a newer release.
        #[serde(other)]
        Other = "other",
    }
}

impl Topic {
    /// Those that a target may choose from.
    pub const OFFERED: [Self; 5] = [
        Self::Failure,
        Self::Recovery,
        Self::Takeover,
        Self::Deadline,
        Self::Slow,
    ];
    /// Those of a target that chooses none: what is longer than usual may be no trouble.
    pub const CHOSEN: [Self; 4] = [Self::Failure, Self::Recovery, Self::Takeover, Self::Deadline];
}

crate::words! {
    /// How a message travels.
    Channel {
        /// A POST of JSON.
        Webhook = "webhook",
        /// A mail.
        Email = "email",
    }
}
