//! The words that columns hold: an enum here, a CHECK in the schema.

/// An enum whose variants are stored as fixed words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every variant, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as stored.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        // Derived it would not see names that come through this macro.
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let kind = utoipa::openapi::schema::SchemaType::Type(utoipa::openapi::schema::Type::String);
                utoipa::openapi::schema::ObjectBuilder::new().schema_type(kind).enum_values(Some([$($word),+])).into()
            }
        }

        impl utoipa::ToSchema for $name {}

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("{word:?} is none of {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

pub(crate) use words;

words! {
    /// How a run ended.
    Final {
        Succeeded = "succeeded",
        Failed = "failed",
        TimedOut = "timed_out",
        Cancelled = "cancelled",
        Lost = "lost",
        Skipped = "skipped",
    }
}

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
    /// What made a run.
    Kind {
        Scheduled = "scheduled",
        Submitted = "submitted",
        Triggered = "triggered",
        Backfill = "backfill",
        /// A new run made from a finished one by hand.
        Retry = "retry",
        Table = "table",
        Continuous = "continuous",
        Stream = "stream",
        Flow = "flow",
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
