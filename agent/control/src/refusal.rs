//! Why something was not done: an error for people, whoever asked.

use std::fmt;
use std::process::ExitCode;

use farmhand_core::document::{Located, Mistakes};
use farmhand_store::StoreError;

/// What becomes of the farm while its database is away. The one place where this is said.
pub const MEANWHILE: &str = "while the database is away nothing new starts, and running jobs go on until the lease of their node ends";

/// The exit codes that scripts lean on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    Error = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    Unreachable = 5,
    /// The database, or the machine, denies it.
    Denied = 6,
    RunFailed = 10,
    RunTimedOut = 11,
    RunCancelled = 12,
    RunSkipped = 13,
    /// `job diff --exit-code`.
    Differs = 14,
    WaitExpired = 124,
    /// Ctrl-C.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What sort of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Usage,
    /// No token, or none that is good.
    Unauthenticated,
    Denied,
    /// There is no such job, run, node or pool.
    NotFound,
    /// The path does not take the method.
    Method,
    /// The request came too slowly.
    Late,
    /// It conflicts with the current state.
    Refused,
    TooLarge,
    NotJson,
    Mistakes,
    TooMany,
    /// The database does not answer, or takes no writes.
    Away,
    /// Whoever is to do it is busy, or it takes too long.
    Slow,
    Broken,
}

impl Kind {
    /// The type of a problem document, its HTTP status, and the exit code of a command.
    const fn row(self) -> (&'static str, u16, Exit) {
        match self {
            Self::Usage => ("urn:farmhand:bad-request", 400, Exit::Usage),
            Self::Unauthenticated => ("urn:farmhand:unauthenticated", 401, Exit::Denied),
            Self::Denied => ("urn:farmhand:forbidden", 403, Exit::Denied),
            Self::NotFound => ("urn:farmhand:not-found", 404, Exit::NotFound),
            Self::Method => ("urn:farmhand:method-not-allowed", 405, Exit::Usage),
            Self::Late => ("urn:farmhand:too-slow", 408, Exit::Unreachable),
            Self::Refused => ("urn:farmhand:refused", 409, Exit::Refused),
            Self::TooLarge => ("urn:farmhand:too-large", 413, Exit::Usage),
            Self::NotJson => ("urn:farmhand:unsupported-media-type", 415, Exit::Usage),
            Self::Mistakes => ("urn:farmhand:mistakes", 422, Exit::Usage),
            Self::TooMany => ("urn:farmhand:too-many-requests", 429, Exit::Unreachable),
            Self::Away | Self::Slow => ("urn:farmhand:unavailable", 503, Exit::Unreachable),
            Self::Broken => ("urn:farmhand:internal", 500, Exit::Error),
        }
    }

    /// The type of a problem document; programs go by it.
    pub const fn urn(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.row().1
    }

    /// What a command exits with.
    pub const fn exit(self) -> Exit {
        self.row().2
    }
}

/// Who asks the database. What one lacks who is denied something depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Somebody at a command line.
    Person,
    /// Who only submits runs and takes leases.
    Application,
    /// Who makes the schema.
    Owner,
    /// An agent, for its own work.
    Agent,
    /// Somebody on the page or the API, for whom an agent asks.
    Token,
}

impl Asker {
    /// What to do about a right that its login lacks.
    fn lacks_a_right(self) -> &'static str {
        match self {
            // A caller that lacks the right to act may often still read.
            Self::Person => {
                "use a login that has the role farmhand_operator; an administrator gives it: GRANT farmhand_operator TO the \
                 login. docs/reference/roles.md says what each role may"
            }
            Self::Application => {
                "use a login that has the role farmhand_submitter; an administrator gives it: GRANT farmhand_submitter TO the \
                 login"
            }
            Self::Owner => {
                "migrate with the login that owns the schema, or with one that owns the database and may make roles (CREATEROLE)"
            }
            Self::Agent => {
                "use a login that has the role farmhand_agent; an administrator gives it: GRANT farmhand_agent TO the login"
            }
            Self::Token => AGENTS_LOG,
        }
    }
}

const AGENTS_LOG: &str = "the agent's log says why; `farmhand doctor` on its machine checks it";

/// Why something was not done.
#[derive(Debug)]
pub struct Refusal {
    pub kind: Kind,
    /// What happened, in one sentence.
    pub what: String,
    /// Reasons, the nearest first.
    pub why: Vec<String>,
    /// What to do now.
    pub next: Option<String>,
    /// Of job files, each with its place.
    pub mistakes: Box<[Located]>,
    /// What the database said, of which each asker is told something else.
    cause: Option<Box<StoreError>>,
}

impl Refusal {
    /// A refusal of this kind, without reasons yet.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            why: Vec::new(),
            next: None,
            mistakes: Box::default(),
            cause: None,
        }
    }

    /// The request itself makes no sense.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    /// It makes sense, but not now.
    pub fn refused(what: impl Into<String>) -> Self {
        Self::new(Kind::Refused, what)
    }

    /// Something does not work as it should.
    pub fn broken(what: impl Into<String>) -> Self {
        Self::new(Kind::Broken, what)
    }

    /// There is no such thing.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, what)
    }

    /// A request of a program cannot be understood.
    pub fn not_understood(why: impl fmt::Display) -> Self {
        Self::usage("the request cannot be understood")
            .why(why)
            .next("/api/v1/openapi.json says what each route takes")
    }

    /// What a failure of the database is to `asker`.
    pub fn of(error: StoreError, asker: Asker) -> Self {
        let mut refusal = of_store(&error, asker);
        refusal.cause = Some(Box::new(error));
        refusal
    }

    /// The same for another asker: of a failure of the database they are told something else. Reasons that were added stay.
    #[must_use]
    pub fn to(mut self, asker: Asker) -> Self {
        let Some(error) = self.cause.take() else {
            return self;
        };
        let mut refusal = Self::of(*error, asker);
        // The first is the database's own.
        refusal.why.extend(self.why.into_iter().skip(1));
        refusal
    }

    /// What the database said, where it was the database.
    pub fn cause(&self) -> Option<&StoreError> {
        self.cause.as_deref()
    }

    /// Adds a reason.
    #[must_use]
    pub fn why(mut self, why: impl fmt::Display) -> Self {
        self.why.push(why.to_string());
        self
    }

    /// Says what to do now.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// What happened, why, and the one next step that its cause asks for.
fn of_store(error: &StoreError, asker: Asker) -> Refusal {
    let for_token = asker == Asker::Token;
    let (kind, what, next) = match error {
        StoreError::Denied(_)
        | StoreError::Forbidden { .. }
        | StoreError::PasswordMissing
        | StoreError::Config(_)
        | StoreError::File { .. }
            if for_token =>
        {
            // It is the agent's own login, and what it is told is not for others.
            return Refusal::new(Kind::Away, "the database denies access to this agent").next(AGENTS_LOG);
        }
        StoreError::Config(_) => (
            Kind::Usage,
            "the database URL cannot be used",
            "fix FARMHAND_DATABASE_URL, for example postgresql://farmhand@db.example.com/farmhand".to_owned(),
        ),
        // No mistake in the configuration: the file may be there, or be readable, at the next start.
        StoreError::File { file, .. } => (
            Kind::Broken,
            "a file for the database connection cannot be used",
            format!("fix {}, or name another file", file.display()),
        ),
        StoreError::ReadOnly => (
            Kind::Away,
            "the database takes no writes",
            format!(
                "name the primary too, as in postgresql://user@a,b/farmhand, or promote this standby; {MEANWHILE}"
            ),
        ),
        StoreError::WritesOff => (
            Kind::Away,
            "the database takes no writes",
            format!(
                "as an administrator, reset default_transaction_read_only where it is set (ALTER ROLE, ALTER DATABASE, ALTER \
                 SYSTEM, or `options` of the URL); {MEANWHILE}"
            ),
        ),
        StoreError::Unreachable(_) if for_token => (
            Kind::Away,
            "the database is out of reach",
            format!("try again; {MEANWHILE}"),
        ),
        StoreError::Unreachable(_) => (
            Kind::Away,
            "the database is out of reach",
            format!("check that PostgreSQL runs there and that FARMHAND_DATABASE_URL names it; {MEANWHILE}"),
        ),
        StoreError::TimedOut { unsure: true, .. }
        | StoreError::ConnectionLost { unsure: true, .. }
        | StoreError::NotConfirmed { .. } => (
            Kind::Away,
            "the database did not confirm; whether it did it is unknown",
            "look before doing it again".to_owned(),
        ),
        StoreError::TimedOut { .. } => (
            Kind::Away,
            "the database did not answer in time; nothing was changed",
            format!("try again, and ask for less if it only is slow; {MEANWHILE}"),
        ),
        StoreError::ConnectionLost { .. } => (
            Kind::Away,
            "the connection to the database was lost; nothing was changed",
            format!("try again; {MEANWHILE}"),
        ),
        StoreError::TokenOver => {
            return Refusal::new(Kind::Denied, error.to_string())
                .next("use another token; an admin makes one");
        }
        StoreError::Forbidden { fix, .. } => (
            Kind::Denied,
            "the database denies this to this login",
            fix.clone().unwrap_or_else(|| asker.lacks_a_right().to_owned()),
        ),
        StoreError::Denied(_) | StoreError::PasswordMissing => (
            Kind::Denied,
            "the database denies access",
            "check the user and its password (FARMHAND_DATABASE_URL or PGPASSFILE)".to_owned(),
        ),
        StoreError::NotReady { fix, .. } => (Kind::Refused, "the database is not ready", fix.clone()),
        StoreError::SchemaMissing | StoreError::SchemaTooOld { .. } => (
            Kind::Refused,
            "the database is not ready for this version",
            "run `farmhand migrate`".to_owned(),
        ),
        StoreError::SchemaTooNew { .. } => (
            Kind::Refused,
            "the database belongs to a newer version",
            "install that version of farmhand on this machine".to_owned(),
        ),
        StoreError::MigrationChanged { .. } => (
            Kind::Refused,
            "the database was migrated by another build",
            "use the build that migrated it, or another database".to_owned(),
        ),
        StoreError::NotFound(_) => (
            Kind::NotFound,
            "there is no such thing",
            "`farmhand job ls` shows the jobs".to_owned(),
        ),
        // A function of the schema says it, of what was asked for.
        StoreError::Refused(why) if for_token => return Refusal::not_understood(why),
        StoreError::Refused(_) => (
            Kind::Refused,
            "the database refuses it",
            "change the request".to_owned(),
        ),
        StoreError::Sql { .. } if error.is_bad_value() => (
            Kind::Usage,
            "a value is none that the database can hold",
            "leave out what is not text, and take smaller numbers".to_owned(),
        ),
        StoreError::Sql { .. } if error.is_too_slow() => (
            Kind::Slow,
            "the answer took too long",
            "ask for less: a shorter stretch of time, or one job".to_owned(),
        ),
        // What a defect says of its insides is for the log.
        StoreError::Sql { .. } | StoreError::Decode { .. } if for_token => {
            return Refusal::new(Kind::Broken, "internal error")
                .next("the agent's log says why; it may be a defect worth reporting");
        }
        StoreError::Sql { .. } | StoreError::Decode { .. } => (
            Kind::Broken,
            "the database answered with an error",
            "`farmhand doctor` checks the database; this may be a defect worth reporting".to_owned(),
        ),
    };
    let why = match error {
        StoreError::Config(why)
        | StoreError::NotReady { why, .. }
        | StoreError::Unreachable(why)
        | StoreError::Denied(why)
        | StoreError::NotFound(why)
        | StoreError::Refused(why) => why.clone(),
        other => other.to_string(),
    };
    let refusal = Refusal::new(kind, what).next(next);
    // Where the database is, and what it says, is not for everybody.
    let hidden = for_token && matches!(kind, Kind::Away | Kind::Slow);
    if hidden { refusal } else { refusal.why(why) }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::of(error, Asker::Person)
    }
}

/// Mistakes of job files that are told at most.
const MISTAKES: usize = 1_000;

/// Job files that cannot be applied as they are.
impl From<Mistakes> for Refusal {
    fn from(mistakes: Mistakes) -> Self {
        let title = match mistakes.len() {
            1 => "the job files have a mistake".to_owned(),
            n if n > MISTAKES => {
                format!("the job files have {n} mistakes, of which these are the first {MISTAKES}")
            }
            n => format!("the job files have {n} mistakes"),
        };
        Self {
            mistakes: mistakes.first(MISTAKES).into(),
            ..Self::new(Kind::Mistakes, title).next("nothing was applied; fix these errors")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(error: &StoreError, asker: Asker) -> (Kind, String) {
        let refusal = of_store(error, asker);
        (refusal.kind, refusal.next.unwrap())
    }

    #[test]
    fn each_who_lacks_a_right_is_told_the_role_that_has_it() {
        let lacks = StoreError::Forbidden {
            why: "permission denied for table node".to_owned(),
            fix: None,
        };
        for (asker, role) in [
            (Asker::Person, "GRANT farmhand_operator"),
            (Asker::Application, "GRANT farmhand_submitter"),
            (Asker::Agent, "GRANT farmhand_agent"),
            (Asker::Owner, "owns the schema"),
        ] {
            let (kind, next) = next(&lacks, asker);
            assert!(kind == Kind::Denied && next.contains(role), "{asker:?}: {next}");
            assert_eq!(
                next.matches("GRANT").count(),
                role.matches("GRANT").count(),
                "{next}"
            );
        }
        // What the database itself says is better, and is no matter of roles.
        let own = StoreError::Forbidden {
            why: String::new(),
            fix: Some("GRANT SELECT (id) ON shop.orders TO ops;".to_owned()),
        };
        assert_eq!(
            next(&own, Asker::Person).1,
            "GRANT SELECT (id) ON shop.orders TO ops;"
        );
        let outside = next(&StoreError::Denied("no".to_owned()), Asker::Person).1;
        assert!(
            outside.contains("password") && !outside.contains("GRANT"),
            "{outside}"
        );
        // Whoever asks an agent can give no login anything.
        assert_eq!(next(&lacks, Asker::Token), (Kind::Away, AGENTS_LOG.to_owned()));
    }

    #[test]
    fn only_what_may_have_been_done_is_said_to_be_unknown() {
        for (unsure, said) in [(true, "look before doing it again"), (false, "try again")] {
            let timed_out = StoreError::TimedOut { op: "x", unsure };
            let lost = StoreError::ConnectionLost {
                op: "x",
                cause: String::new(),
                unsure,
            };
            for error in [timed_out, lost] {
                let (kind, next) = next(&error, Asker::Person);
                assert!(kind == Kind::Away && next.starts_with(said), "{error}: {next}");
            }
        }
    }

    #[test]
    fn a_server_that_could_take_writes_is_not_called_a_standby() {
        let off = next(&StoreError::WritesOff, Asker::Person).1;
        assert!(
            off.contains("default_transaction_read_only") && !off.contains("standby"),
            "{off}"
        );
        let standby = next(&StoreError::ReadOnly, Asker::Person).1;
        assert!(standby.contains("promote"), "{standby}");
    }
}
