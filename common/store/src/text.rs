//! The words that columns hold: an enum here, a CHECK in the schema.

use farmhand_core::words;

words! {
    /// How an attempt ended that did not end its run.
    AttemptOutcome {
        /// Its command failed.
        Failed = "failed",
        /// It ran past its timeout, or made no progress for too long.
        TimedOut = "timed_out",
        /// Its node or its warden was lost.
        Lost = "lost",
        /// Its node gave it back.
        Released = "released",
        /// Its command was never started.
        NeverStarted = "never_started",
    }
}

words! {
    /// Where a piece of an attempt's output came from.
    LogStream {
        /// Standard output of the command.
        Stdout = "stdout",
        /// Error output of the command.
        Stderr = "stderr",
        /// What Farmhand says in between.
        Agent = "agent",
    }
}

words! {
    /// How much an event matters to the person on call.
    Severity {
        /// The ordinary course of runs.
        Debug = "debug",
        /// Worth knowing; nothing is wrong.
        Info = "info",
        /// Something is wrong, and Farmhand goes on.
        Warning = "warning",
        /// Something does not work until it is fixed.
        Error = "error",
    }
}

words! {
    /// What a caller of the API may do; each may do what those before it may.
    Role {
        /// Sees everything.
        Viewer = "viewer",
        /// Runs jobs.
        Submitter = "submitter",
        /// Cancels, retries, pauses, drains.
        Operator = "operator",
        /// What may run something twice, and tokens.
        Admin = "admin",
    }
}
