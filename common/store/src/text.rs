//! The words that columns hold: an enum here, a CHECK in the schema.

/// As [`farmhand_core::words!`], and the API's documents know it.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        farmhand_core::words! { $(#[$doc])* $name { $($(#[$vdoc])* $variant = $word),+ } }

        $crate::described::as_words!($name, $name::ALL);
    };
}

pub(crate) use words;

words! {
    /// How an attempt ended that did not end its run.
    AttemptOutcome {
        Failed = "failed",
        TimedOut = "timed_out",
        Lost = "lost",
        Released = "released",
        NeverStarted = "never_started",
    }
}

words! {
    /// Where a piece of an attempt's output came from; `agent` is what Farmhand itself has to say in between.
    LogStream {
        Stdout = "stdout",
        Stderr = "stderr",
        Agent = "agent",
    }
}

words! {
    /// How much an event matters to the person on call.
    Severity {
        Debug = "debug",
        Info = "info",
        Warning = "warning",
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
