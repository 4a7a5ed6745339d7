//! The kinds of events. `farmhand events --kind`, the API and the page take these words, and `docs/reference/events.md` is made of the
//! sentences.

crate::words! {
    /// What happened, as a word.
    EventKind {
        /// An agent opened a session, and with it its node's lease.
        SessionOpened = "session_opened",
        /// An agent went on with the session of an earlier one, whose warden still ran.
        SessionAdopted = "session_adopted",
        /// The first session of a boot fired the `@reboot` jobs.
        Booted = "booted",
        /// Another agent expired the session of this one.
        SessionLost = "session_lost",
        /// A copy of the machine used the session, too.
        SessionShared = "session_shared",
        /// An agent ended its own session.
        SessionClosed = "session_closed",
        /// A newer agent of the machine has taken the warden over.
        Superseded = "superseded",
        /// The lease could not be renewed in time, and what ran on the node was ended.
        LeaseLapsed = "lease_lapsed",
        /// A run was claimed whose attempt before was lost.
        Takeover = "takeover",
        /// A run ended otherwise than with success.
        RunEnded = "run_ended",
        /// An attempt failed and is tried again.
        Retry = "retry",
        /// An attempt ran past its timeout, or made no progress for too long.
        TimedOut = "timed_out",
        /// A child of a command was ended by a limit of its job.
        ChildKilled = "child_killed",
        /// A command ended while others of its processes went on: they were ended with it.
        LeftoversEnded = "leftovers_ended",
        /// The node's policy does not allow a job's user.
        UserRefused = "user_refused",
        /// The node would not execute a definition: no trusted key vouches for it, or it is of a newer release.
        DefinitionRefused = "definition_refused",
        /// A node gave back runs that it held.
        Released = "released",
        /// An attempt was ended before it could end itself.
        AttemptLost = "attempt_lost",
        /// A write about an attempt that had moved on was refused.
        Fenced = "fenced",
        /// An attempt was killed because its run had moved on.
        FenceKill = "fence_kill",
        /// A process could not be ended, or it could not be found out whether it has ended.
        Unkillable = "unkillable",
        /// A run takes longer than usual.
        RunSlow = "run_slow",
        /// Due instants got no run.
        Skipped = "skipped",
        /// A node's session was expired: it had not renewed its lease.
        Expired = "expired",
        /// An agent did not renew its lease, because a warden did not answer.
        RenewalWithheld = "renewal_withheld",
        /// A named lease that was left behind was freed.
        LeaseFreed = "lease_freed",
        /// Runs that ended sessions still held were freed.
        Swept = "swept",
        /// Runs were ended that only a node may run that is gone.
        Abandoned = "abandoned",
        /// The database is another one than before: nothing is claimed until it is certain that nothing lives of the other's runs.
        DatabaseUnknown = "database_unknown",
        /// Claims are open again after the database was replaced.
        EpochOpened = "epoch_opened",
        /// An agent saw that the epoch had changed.
        EpochChanged = "epoch_changed",
        /// The machine refused to start a run.
        StartsRefused = "starts_refused",
        /// The machine starts runs again.
        StartsResumed = "starts_resumed",
        /// The machine's clock runs faster or slower than a lease allows for.
        ClockSlewed = "clock_slewed",
        /// The directory of an attempt could not be removed.
        NotRemoved = "not_removed",
        /// A node lost output: it was beyond `output.local`, could not be written, or was not taken by journald or syslog.
        OutputDropped = "output_dropped",
        /// A stored definition cannot be read.
        BadDefinition = "bad_definition",
        /// The table of a table job cannot be used as it is.
        TableRefused = "table_refused",
        /// Rows of a table have no key and are not run.
        RowsWithoutKey = "rows_without_key",
        /// The result of a run could not be written into its row.
        RowNotWritten = "row_not_written",
        /// The database answers an agent again, after a second or more.
        DatabaseBack = "database_back",
        /// An agent was told to leave and finishes what runs.
        Draining = "draining",
        /// A drain took too long, and what still ran was ended.
        DrainDeadline = "drain_deadline",
        /// Nothing runs any more on a node that is drained.
        Drained = "drained",
        /// Requests to the API or the page were refused.
        HttpRefused = "http_refused",
        /// A message could not be delivered and is not tried again.
        NotificationFailed = "notification_failed",
        /// A message could not be delivered at once.
        NotificationDelayed = "notification_delayed",
        /// The service of a target refused a part of a message.
        NotificationRefused = "notification_refused",
        /// Targets want mail, and the agent cannot send any.
        MailUnconfigured = "mail_unconfigured",
        /// The sign of life to outside was not sent, because the farm does not do its work.
        PingWithheld = "ping_withheld",
        /// Somebody submitted a run.
        RunSubmitted = "run_submitted",
        /// Somebody ran a run again.
        RetryByHand = "retry_by_hand",
        /// Somebody ran many runs again.
        RetryMany = "retry_many",
        /// Somebody cancelled a run.
        Cancel = "cancel",
        /// Somebody cancelled many runs.
        CancelMany = "cancel_many",
        /// Somebody made runs for instants of the past.
        Backfill = "backfill",
        /// Somebody applied a definition.
        JobApplied = "job_applied",
        /// Somebody signed a definition.
        JobSigned = "job_signed",
        /// Somebody deleted a job.
        JobDeleted = "job_deleted",
        /// Somebody paused a job.
        JobPaused = "job_paused",
        /// Somebody resumed a job.
        JobResumed = "job_resumed",
        /// Somebody told a node to take no more runs.
        NodeCordon = "node_cordon",
        /// Somebody told a node to take no more runs and to finish what runs.
        NodeDrain = "node_drain",
        /// Somebody told a node to take runs again.
        NodeResume = "node_resume",
        /// Somebody removed a node.
        NodeRemoved = "node_removed",
        /// Somebody gave a pool another size.
        PoolResized = "pool_resized",
        /// Somebody released the lease of a node by force.
        LeaseReleased = "lease_released",
        /// Somebody had the farm wait as after a replaced database.
        EpochBumped = "epoch_bumped",
        /// Somebody made a token.
        TokenCreated = "token_created",
        /// Somebody revoked a token.
        TokenRevoked = "token_revoked",
        /// Somebody logged in to the page.
        Login = "login",
    }
}
