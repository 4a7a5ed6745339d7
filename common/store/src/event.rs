//! Everything that happens, one row each: the sentence of `docs/reference/events.md`, the word in `farmhand.event`, where the page
//! shows it, its fields, its line in the log and what it counts.

use std::net::IpAddr;
use std::time::Duration;

use farmhand_core::attempt::AttemptRef;
use farmhand_core::document::millis;
use farmhand_core::durations::Exceeded;
use farmhand_core::lease::Closed;
use farmhand_core::notify::{Channel, Topic};
use serde_json::{Map, Value, json};

use super::error::StoreError;
use super::events::EventRow;
use super::protocol::NewEpoch;
use super::text::Severity;

/// A shorter outage is in the log alone.
const OUTAGE: Duration = Duration::from_secs(1);

/// Makes [`Event`], [`EventKind`] and [`count_event`](crate::count_event) of the table.
///
/// `Name "word" if (it is recorded) [where the page shows it] { fields; fields that are only logged } Severity "line"; counts { … }`.
/// Fields become the columns or the detail of the row under their name, or under the one after `as`.
macro_rules! events {
    (
        recorded { $(
            #[$doc:meta]
            $name:ident $word:literal $(if ($recorded:expr))? [$($about:ident)*]
            $({ $($field:ident $(as $key:literal)?: $type:ty),* $(; $($extra:ident: $extra_type:ty),*)? })?
            $severity:ident $(if ($severe:expr) else $mild:ident)? $line:literal $(, $argument:expr)*;
            $(counts { $($metric:ident $([$($label:expr),*])?.$count:ident($($value:expr),*) $(if ($counted:expr))?;)* })?
        )* }
        logged { $(
            #[$doc_l:meta]
            $name_l:ident $({ $($field_l:ident: $type_l:ty),* })?
            $severity_l:ident $(if ($severe_l:expr) else $mild_l:ident)? $line_l:literal $(, $argument_l:expr)*;
            $(counts { $($metric_l:ident $([$($label_l:expr),*])?.$count_l:ident($($value_l:expr),*);)* })?
        )* }
        counted { $(
            #[$doc_c:meta]
            $name_c:ident { $($field_c:ident: $type_c:ty),* }
            counts { $($metric_c:ident $([$($label_c:expr),*])?.$count_c:ident($($value_c:expr),*);)* }
        )* }
        by_statement { $(
            #[$doc_s:meta]
            $name_s:ident $word_s:literal [$($about_s:ident)*];
        )* }
    ) => {
        farmhand_core::words! {
            /// What happened, as a word.
            EventKind {
                $(#[$doc] $name = $word,)*
                $(#[$doc_s] $name_s = $word_s,)*
            }
        }

        impl EventKind {
            fn about(self) -> &'static [About] {
                match self {
                    $(Self::$name => &[$(About::$about),*],)*
                    $(Self::$name_s => &[$(About::$about_s),*],)*
                }
            }
        }

        /// What an agent logs, counts or records.
        #[derive(Clone, Debug)]
        pub enum Event {
            $(#[$doc] $name $({ $($field: $type,)* $($($extra: $extra_type,)*)? })?,)*
            $(#[$doc_l] $name_l $({ $($field_l: $type_l),* })?,)*
            $(#[$doc_c] $name_c { $($field_c: $type_c),* },)*
        }

        #[expect(unused_variables, reason = "no row uses all its fields in each of these")]
        impl Event {
            /// None where a row would say nothing that the run does not.
            pub fn kind(&self) -> Option<EventKind> {
                match self {
                    $(Self::$name { $($($field,)* $($($extra,)*)?)? } => {
                        $(if !$recorded { return None; })?
                        Some(EventKind::$name)
                    })*
                    _ => None,
                }
            }

            /// None when it is only counted.
            pub fn severity(&self) -> Option<Severity> {
                match self {
                    $(Self::$name { $($($field,)* $($($extra,)*)?)? } => {
                        $(if !$severe { return Some(Severity::$mild); })?
                        Some(Severity::$severity)
                    })*
                    $(Self::$name_l { $($($field_l,)*)? } => {
                        $(if !$severe_l { return Some(Severity::$mild_l); })?
                        Some(Severity::$severity_l)
                    })*
                    $(Self::$name_c { .. } => None,)*
                }
            }

            fn fields(&self) -> Map<String, Value> {
                let mut fields = Map::new();
                match self {
                    $(Self::$name { $($($field,)* $($($extra,)*)?)? } => {
                        $($($field.insert_into(&mut fields, [$($key,)? stringify!($field)][0]);)*)?
                    })*
                    _ => {}
                }
                fields
            }
        }

        #[expect(unused_variables, reason = "some fields are only recorded or counted")]
        impl std::fmt::Display for Event {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$name { $($($field,)* $($($extra,)*)?)? } => write!(f, $line $(, $argument)*),)*
                    $(Self::$name_l { $($($field_l,)*)? } => write!(f, $line_l $(, $argument_l)*),)*
                    $(Self::$name_c { .. } => write!(f, "{self:?}"),)*
                }
            }
        }

        /// Counts an event in metrics: a struct with the fields that the table names.
        #[macro_export]
        macro_rules! count_event {
            ($metrics:expr, $event:expr) => {
                match $event {
                    $($crate::event::Event::$name { $($($field,)* $($($extra,)*)?)? } => {
                        $($($(if $counted)? { $metrics.$metric$(.with_label_values(&[$($label),*]))?.$count($($value),*); })*)?
                    })*
                    $($crate::event::Event::$name_l { $($($field_l,)*)? } => {
                        $($($metrics.$metric_l$(.with_label_values(&[$($label_l),*]))?.$count_l($($value_l),*);)*)?
                    })*
                    $($crate::event::Event::$name_c { $($field_c,)* } => {
                        $($metrics.$metric_c$(.with_label_values(&[$($label_c),*]))?.$count_c($($value_c),*);)*
                    })*
                }
            };
        }
    };
}

events! {
    recorded {
        /// An agent opened a session, and with it its node's lease.
        SessionOpened "session_opened" [Nodes] { session: i64 }
            Info "opened session {session}";
        /// An agent went on with the session of an earlier one, whose warden still ran.
        SessionAdopted "session_adopted" [Nodes] { session: i64, attempts: usize }
            Info "adopted session {session} with {attempts} running attempts from its warden";
        /// The first session of a boot fired the `@reboot` jobs.
        Booted "booted" [Nodes] { boot_id: String, runs: usize }
            Info "boot {boot_id} is new to the farm: {runs} runs of @reboot jobs";
        /// Another agent expired the session of this one.
        SessionLost "session_lost" [Takeovers Nodes] { session: i64 }
            Warning "session {session} is over: another agent expired it; ending what it ran";
            counts { renewals["lost"].inc(); timeouts["lease"].inc(); lease.clear(); }
        /// A copy of the machine used the session, too.
        SessionShared "session_shared" [Takeovers Nodes] { session: i64 }
            Error "session {session} is used by another agent, too: this machine was copied while its agent ran; both end what \
                they run. Give one of them another --address, or stop it";
        /// An agent ended its own session.
        SessionClosed "session_closed" [Nodes] { session: i64, freed: usize }
            Info "closed session {session}, {freed} runs freed";
        /// A newer agent of the machine has taken the warden over.
        Superseded "superseded" [Fences]
            Warning "a newer agent has taken over the warden; leaving";
        /// The lease could not be renewed in time, and what ran on the node was ended.
        LeaseLapsed "lease_lapsed" [Takeovers] { session: i64, attempts: usize }
            Warning "the lease of session {session} lapsed unrenewed; {attempts} attempts were ended";
            counts { timeouts["lease"].inc(); fence_kills["lapsed"].inc_by(*attempts as u64); lease.clear(); }
        /// A run was claimed whose attempt before was lost.
        Claimed "takeover" if (takeover.is_some()) [Takeovers]
            { attempt: AttemptRef, takeover as "cause": Option<TakeoverCause>; lag: Duration }
            Warning if (takeover.is_some()) else Debug "claimed {attempt} fence {} ({} ms after due){}",
                attempt.fence, lag.as_millis(), takeover.map_or("", |_| ", a takeover");
            counts {
                claims[attempt.kind.as_str(), "won"].inc();
                takeovers[takeover.map_or("", |cause| cause.as_str())].inc() if (takeover.is_some());
                // It was due long before; how late a takeover is, the challenger measures.
                schedule_lag[attempt.kind.as_str()].observe(lag.as_secs_f64()) if (takeover.is_none());
            }
        /// A run ended otherwise than with success.
        // Its row is written with the end itself, by whichever statement ends the run (end.sql).
        Ended "run_ended" if (false) [Failures]
            { attempt: AttemptRef, outcome: &'static str; detail: Value, ran: Option<Duration> }
            Info if (*outcome != "succeeded") else Debug "{attempt} {outcome}{}",
                ran.map_or_else(String::new, |ran| format!(" after {ran:.3?} {detail}"));
            counts {
                runs_finished[attempt.kind.as_str(), *outcome].inc();
                run_duration[attempt.kind.as_str()].observe(ran.unwrap_or_default().as_secs_f64()) if (ran.is_some());
            }
        /// An attempt failed and is tried again.
        Retrying "retry" [Failures] { attempt: AttemptRef, outcome: &'static str, delay: Duration }
            Info "{attempt} {outcome}; again in {delay:.1?}";
            counts { retries.inc(); }
        /// An attempt ran past its timeout, or made no progress for too long.
        TimedOut "timed_out" [Failures] { attempt: AttemptRef, limit as "type": &'static str }
            Warning "{attempt} {}", if *limit == "run" { "ran past its timeout" } else { "made no progress for too long" };
            counts { timeouts[limit].inc(); }
        /// A child of a command was ended by a limit of its job.
        ChildKilled "child_killed" [Failures] { attempt: AttemptRef, name: String, pid: i32, what: String }
            Warning "{attempt}: {what}";
        /// A command ended while others of its processes went on: they were ended with it.
        LeftoversEnded "leftovers_ended" [Failures] { attempt: AttemptRef, processes: u32 }
            Warning "{attempt}: what it left in the background was ended with it";
        /// The node's policy does not allow a job's user.
        UserRefused "user_refused" [Audit] { attempt: AttemptRef, user: String, why: String }
            Warning "{attempt}: {why}";
            counts { refusals["policy"].inc(); }
        /// The node would not execute a definition: no trusted key vouches for it, or it is of a newer release.
        DefinitionRefused "definition_refused" [Audit] { attempt: AttemptRef, why: String }
            Warning "{attempt}: {why}";
            counts { refusals["signature"].inc(); }
        /// A node gave back runs that it held.
        Released "released" [] { session: i64, runs: usize, why: &'static str }
            Info "gave back {runs} claimed runs unstarted: {why}";
        /// An attempt was ended before it could end itself.
        AttemptLost "attempt_lost" [Takeovers] { attempt: AttemptRef, why: &'static str }
            Warning "{attempt} is lost: {why}";
        /// A write about an attempt that had moved on was refused.
        Fenced "fenced" [Fences] { op: &'static str, run_id: i64, attempt: i32, now: String }
            Warning "{op} of run {run_id} attempt {attempt} refused: the run has moved on ({now})";
            counts { fence_rejections[op].inc(); }
        /// An attempt was killed because its run had moved on.
        FenceKill "fence_kill" [Fences] { run_id: i64, attempt: i32, why: &'static str }
            Warning "killed run {run_id} attempt {attempt}: {why}";
            counts { fence_kills["killed"].inc(); }
        /// A process could not be ended, or it could not be found out whether it has ended.
        Unkillable "unkillable" [Fences] { run_id: i64, attempt: i32 }
            Error "run {run_id} attempt {attempt} has processes the kernel cannot end";
        /// A run takes longer than usual.
        RunSlow "run_slow" [Failures]
            { job_id: String, run_id: i64, attempt: i32, node: String, ran: Duration, p95: Duration, runs as "of": usize }
            Warning "{job_id} run {run_id} attempt {attempt} has run for {ran:.0?} on {node}, {}",
                Exceeded { p95: *p95, runs: *runs };
        /// Due instants got no run.
        Skipped "skipped" [Skips] { job_id: String, reason: String, count: u64 }
            Info "skipped {count} due instants of {job_id}: {reason}";
            counts { skips[reason].inc_by(*count); }
        /// A node's session was expired: it had not renewed its lease.
        Expired "expired" [Takeovers] { address as "expired": String, session: i64, silent: Duration, freed: usize }
            Warning "expired session {session} of node {address}, silent for {silent:.1?}; {freed} runs are free";
            counts { takeover_delay.observe(silent.as_secs_f64()); }
        /// An agent did not renew its lease, because a warden did not answer.
        RenewalWithheld "renewal_withheld" [] { session: i64 }
            Warning "session {session} is not renewed: the warden has not confirmed its deadline; if it does not, the lease lapses";
            counts { renewals["withheld"].inc(); }
        /// A named lease that was left behind was freed.
        LeaseFreed "lease_freed" [Takeovers] { name as "lock": String, client: String, login: String }
            Warning "freed the lock {name}, for which runs wait: {client} (login {login}) had it and no longer renews it";
        /// Runs that ended sessions still held were freed.
        Swept "swept" [Takeovers] { freed: usize }
            Warning "freed {freed} runs claimed by sessions that had ended";
        /// Runs were ended that only a node may run that is gone.
        Abandoned "abandoned" [Skips] { runs: usize }
            Warning "{runs} runs waited too long for nodes that are gone; they are lost";
        /// The database is another one than before: nothing is claimed until it is certain that nothing lives of the other's runs.
        DatabaseUnknown "database_unknown" [] { epoch: i64 }
            Warning "the database in epoch {epoch} is not as this agent left it: failed over, restored or moved; nothing is \
                claimed until it was watched for the longest lease";
        /// Claims are open again after the database was replaced.
        EpochOpened "epoch_opened" [] { epoch: i64, follows: i64, why: Option<Closed>, runs_forgotten: Option<i64> }
            Info "opened epoch {epoch} of the database for claims, after epoch {follows}{}; {}",
                tail(": ", why.map(Closed::because)),
                match runs_forgotten {
                    Some(0) => "no run is forgotten".to_owned(),
                    Some(runs) => format!("at most {runs} runs are forgotten"),
                    None => "how many runs are forgotten is unknown".to_owned(),
                };
        /// An agent saw that the epoch had changed.
        EpochChanged "epoch_changed" [] { from: i64, to: i64 }
            Warning "the database is in epoch {to}, was {from}: comparing what runs here before claiming";
        /// The machine refused to start a run.
        StartsRefused "starts_refused" [] { why: String }
            Warning "this machine starts no runs: {why}; they are given back, and less is claimed until one starts";
            counts { starts_refused.set(1); }
        /// The machine starts runs again.
        StartsResumed "starts_resumed" [] { after: Duration }
            Info "this machine starts runs again; it had not for {:.1} s", after.as_secs_f64();
            counts { starts_refused.set(0); }
        /// The machine's clock runs faster or slower than a lease allows for.
        ClockSlewed "clock_slewed" [] { slewed: bool }
            Warning "this machine's clock {}", if *slewed {
                "is being slewed; expiring nobody and holding shorter leases"
            } else {
                "ticks at its own rate again"
            };
        /// The directory of an attempt could not be removed.
        NotRemoved "not_removed" [] { run_id: i64, attempt: i32, error: String }
            Warning "files of run {run_id} attempt {attempt} were not removed: {error}";
        /// A node lost output: it was beyond `output.local`, could not be written, or was not taken by journald or syslog.
        OutputDropped "output_dropped" [] { run_id: i64, attempt: i32, bytes: u64, error: Option<String> }
            Warning "run {run_id} attempt {attempt}: {bytes} bytes of output were not kept: {}",
                error.as_deref().unwrap_or("over the local cap");
            counts { log_dropped.inc_by(*bytes); }
        /// A stored definition cannot be read.
        BadDefinition "bad_definition" [] { job_id: String, error: String }
            Error "job {job_id} cannot be used: {error}";
        /// The table of a table job cannot be used as it is.
        TableRefused "table_refused" [] { job_id: String, error: String }
            Error "no rows of job {job_id} can be run: {error}";
        /// Rows of a table have no key and are not run.
        RowsWithoutKey "rows_without_key" [] { job_id: String }
            Warning "rows of job {job_id} wait and are never run: their key is NULL; give them keys, and then set the key's columns \
                NOT NULL";
        /// The database answers an agent again, after a second or more.
        DatabaseUp "database_back" if (away.is_some_and(|away| away >= OUTAGE)) [Takeovers] { away: Option<Duration> }
            Warning if (away.is_some()) else Info "PostgreSQL answers{}",
                away.map_or_else(String::new, |away| format!(" again; it had not for {:.1} s", away.as_secs_f64()));
            counts { db_up.set(1); }
        /// An agent was told to leave and finishes what runs.
        Draining "draining" [Nodes] { why: &'static str }
            Info "draining: {why}";
        /// A drain took too long, and what still ran was ended.
        DrainDeadline "drain_deadline" [Nodes] { attempts: usize }
            Warning "the drain's deadline has passed; {attempts} attempts are ended";
        /// Nothing runs any more on a node that is drained.
        Drained "drained" [Nodes]
            Info "drained: nothing runs here";
        /// Requests to the API or the page were refused.
        Refused "http_refused" [Audit]
            { reason: &'static str, token: Option<String>, remote: Option<IpAddr>, method: String, path: String, times: u64 }
            Warning "refused {method} {path:?} from {}: {reason}{}{}",
                remote.map_or_else(|| "many addresses".to_owned(), |remote| remote.to_string()),
                tail(", token ", token.as_ref()),
                if *times > 1 { format!(", {times} times") } else { String::new() };
        /// A message could not be delivered and is not tried again.
        NotificationFailed "notification_failed" []
            { target: String, channel: Channel, topic: Topic, job_id: Option<String>, run_id: Option<i64>, tries: i32, error: String }
            Error "could not tell {target} by {channel} of {topic}{} (try {tries}, given up): {error}", tail(" of ", job_id.as_ref());
            // A test is no message of a job.
            counts { notifications[channel.as_str(), if *topic == farmhand_core::notify::Topic::Test { "error" } else { "failed" }].inc(); }
        /// A message could not be delivered at once.
        NotificationDelayed "notification_delayed" if (*tries == 1) []
            { target: String, channel: Channel, topic: Topic, job_id: Option<String>, run_id: Option<i64>, tries: i32, error: String }
            Warning "could not tell {target} by {channel} of {topic}{} (try {tries}, it is tried again): {error}",
                tail(" of ", job_id.as_ref());
            counts { notifications[channel.as_str(), "error"].inc(); }
        /// The service of a target refused a part of a message.
        Delivered "notification_refused" if (complaint.is_some()) []
            { target: String, channel: Channel, topic: Topic, job_id: Option<String>, complaint as "error": Option<String> }
            Warning if (complaint.is_some()) else Info "told {target} by {channel} of {topic}{}{}",
                tail(" of ", job_id.as_ref()), tail(", not all of it: ", complaint.as_ref());
            counts { notifications[channel.as_str(), "delivered"].inc(); }
        /// Targets want mail, and the agent cannot send any.
        NoMail "mail_unconfigured" [] { targets: Vec<String> }
            Warning "the configuration has no [smtp], and mail is to go to {}: this agent cannot send it", targets.join(", ");
        /// The sign of life to outside was not sent, because the farm does not do its work.
        PingWithheld "ping_withheld" [] { why: &'static str }
            Warning "no sign of life is sent: {why}";
    }

    logged {
        /// The database refused or did not answer a renewal.
        RenewalFailed { error: String }
            Warning "lease renewal failed: {error}";
            counts { renewals["error"].inc(); }
        /// A claim failed.
        ClaimFailed { error: String }
            Warning "claim failed: {error}";
            counts { claims["any", "error"].inc(); }
        /// An attempt's command runs.
        Started { attempt: AttemptRef, pid: i32 }
            Debug "started {attempt} as pid {pid}";
            counts { runs_started[attempt.kind.as_str()].inc(); }
        /// The database does not answer this agent: the first failure of an outage.
        DatabaseAway
            Warning "PostgreSQL does not answer";
            counts { db_up.set(0); }
        /// A statement failed. `class` is that of the error in metrics.
        DatabaseDown { op: &'static str, class: &'static str, error: String }
            Error "PostgreSQL: {op} failed ({class}): {error}";
        /// The socket of journald or syslog that takes the runs' lines is out of reach, or there again.
        RunLog { socket: String, trouble: Option<String> }
            Warning if (trouble.is_some()) else Info "the runs' lines {}", trouble.as_ref().map_or_else(
                || format!("go to {socket} again"),
                |why| format!("cannot be sent to {socket}: {why}; trying on"),
            );
        /// The configuration was read again; what is named waits for a restart.
        Reloaded { restart_needed: Vec<&'static str> }
            Info "configuration read again{}",
                tail("; these need a restart: ", (!restart_needed.is_empty()).then(|| restart_needed.join(", ")));
        /// The configuration could not be read again; the one of before holds.
        ReloadFailed { error: String }
            Warning "the configuration stays as it was: {error}";
        /// A sign of life was sent, or could not be.
        Pinged { error: Option<String> }
            Warning if (error.is_some()) else Debug "{} the sign of life{}",
                if error.is_some() { "could not send" } else { "sent" }, tail(": ", error.as_ref());
            counts { notifications["ping", if error.is_some() { "error" } else { "delivered" }].inc(); }
        /// A regular task of the farm was done or failed.
        Housekeeping { task: &'static str, error: Option<String> }
            Warning if (error.is_some()) else Debug "housekeeping: {task} {}{}",
                if error.is_some() { "failed" } else { "done" }, tail(": ", error.as_ref());
    }

    counted {
        /// `remaining` is the fraction of the TTL that was left.
        Renewed { remaining: f64, ttl: Duration }
            counts { renewals["ok"].inc(); lease.set(*remaining, ttl.as_secs_f64()); }
        /// The round trip of a claim.
        ClaimTook { took: Duration }
            counts { claim_duration.observe(took.as_secs_f64()); }
        /// Another agent was first, or nothing was left to claim; `kind` is that of the run that was sought.
        ClaimLost { kind: &'static str }
            counts { claims[kind, "lost"].inc(); }
        /// The status of an HTTP answer.
        Answered { status: u16 }
            counts { http_requests[["1xx", "2xx", "3xx", "4xx"].get(usize::from(status / 100).wrapping_sub(1)).unwrap_or(&"5xx")].inc(); }
        /// The API turned a request away; [`Event::Refused`] says it.
        TurnedAway { reason: &'static str }
            counts { http_refused[reason].inc(); }
        /// The database's clock minus this machine's.
        ClockOffset { seconds: f64 }
            counts { db_clock_offset.set(*seconds); }
    }

    by_statement {
        /// The result of a run could not be written into its row.
        RowNotWritten "row_not_written" [];
        /// Somebody submitted a run.
        RunSubmitted "run_submitted" [Audit];
        /// Somebody ran a run again.
        RetryByHand "retry_by_hand" [Audit];
        /// Somebody ran many runs again.
        RetryMany "retry_many" [Audit];
        /// Somebody cancelled a run.
        Cancel "cancel" [Audit];
        /// Somebody cancelled many runs.
        CancelMany "cancel_many" [Audit];
        /// Somebody made runs for instants of the past.
        Backfill "backfill" [Audit];
        /// Somebody applied a definition.
        JobApplied "job_applied" [Audit];
        /// Somebody signed a definition.
        JobSigned "job_signed" [Audit];
        /// Somebody deleted a job.
        JobDeleted "job_deleted" [Audit];
        /// Somebody paused a job.
        JobPaused "job_paused" [Audit];
        /// Somebody resumed a job.
        JobResumed "job_resumed" [Audit];
        /// Somebody told a node to take no more runs.
        NodeCordon "node_cordon" [Audit];
        /// Somebody told a node to take no more runs and to finish what runs.
        NodeDrain "node_drain" [Audit];
        /// Somebody told a node to take runs again.
        NodeResume "node_resume" [Audit];
        /// Somebody removed a node.
        NodeRemoved "node_removed" [Audit];
        /// Somebody gave a pool another size.
        PoolResized "pool_resized" [Audit];
        /// Somebody released the lease of a node by force.
        LeaseReleased "lease_released" [Audit];
        /// Somebody had the farm wait as after a replaced database.
        EpochBumped "epoch_bumped" [Audit];
        /// Somebody made a token.
        TokenCreated "token_created" [Audit];
        /// Somebody revoked a token.
        TokenRevoked "token_revoked" [Audit];
        /// Somebody logged in to the page.
        Login "login" [];
    }
}

/// What the page offers to choose events by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Takeovers,
    Fences,
    Skips,
    Failures,
    Audit,
    Nodes,
}

impl About {
    /// Those that it means.
    pub fn kinds(self) -> Vec<EventKind> {
        let of_it = |kind: &EventKind| kind.about().contains(&self);
        EventKind::ALL.iter().copied().filter(of_it).collect()
    }
}

farmhand_core::words! {
    /// Why a run was free to be taken over.
    TakeoverCause {
        /// The session was expired, or the warden died.
        Expired = "expired",
        /// The node was drained, or gave the run back.
        Drain = "drain",
        /// Somebody expired the session by command.
        Forced = "forced",
    }
}

impl From<NewEpoch> for Event {
    fn from(new: NewEpoch) -> Self {
        Self::EpochOpened {
            epoch: new.epoch,
            follows: new.follows,
            why: new.why,
            runs_forgotten: new.runs_forgotten,
        }
    }
}

impl Event {
    /// A statement failed with this error.
    pub fn database_down(op: &'static str, error: &StoreError) -> Self {
        Self::DatabaseDown {
            op,
            class: error.class(),
            error: error.to_string(),
        }
    }

    /// What the agent at `address` records of it.
    pub fn row(&self, address: &str) -> Option<EventRow> {
        let kind = self.kind()?;
        let mut detail = self.fields();
        let mut number = |column| detail.remove(column).and_then(|value: Value| value.as_i64());
        let (run_id, attempt) = (number("run_id"), number("attempt"));
        let (session, fence) = (number("session"), number("fence"));
        let job_id = detail.remove("job_id");
        Some(EventRow {
            kind: kind.to_string(),
            severity: self.severity()?,
            job_id: job_id.and_then(|job| job.as_str().map(str::to_owned)),
            run_id,
            attempt: attempt.and_then(|attempt| i32::try_from(attempt).ok()),
            address: Some(address.to_owned()),
            session,
            fence,
            detail: detail.into(),
        })
    }
}

/// How a field of an event stands in its row.
trait Field {
    fn insert_into(&self, row: &mut Map<String, Value>, name: &str);
}

macro_rules! as_json {
    ($($type:ty),*) => { $(impl Field for $type {
        fn insert_into(&self, row: &mut Map<String, Value>, name: &str) {
            row.insert(name.to_owned(), json!(self));
        }
    })* };
}

as_json!(
    i32,
    i64,
    u32,
    u64,
    usize,
    bool,
    &'static str,
    String,
    Vec<String>,
    Value
);
as_json!(Channel, Closed, IpAddr, TakeoverCause, Topic);

impl Field for Duration {
    fn insert_into(&self, row: &mut Map<String, Value>, name: &str) {
        row.insert(format!("{name}_ms"), millis(*self).into());
    }
}

impl Field for AttemptRef {
    fn insert_into(&self, row: &mut Map<String, Value>, name: &str) {
        self.job_id.insert_into(row, "job_id");
        self.run_id.insert_into(row, "run_id");
        self.attempt.insert_into(row, name);
        self.fence.insert_into(row, "fence");
    }
}

impl<T: Field> Field for Option<T> {
    fn insert_into(&self, row: &mut Map<String, Value>, name: &str) {
        match self {
            Some(field) => field.insert_into(row, name),
            None => drop(row.insert(name.to_owned(), Value::Null)),
        }
    }
}

/// `what` after `before`, if there is any.
fn tail(before: &str, what: Option<impl std::fmt::Display>) -> String {
    what.map_or_else(String::new, |what| format!("{before}{what}"))
}
