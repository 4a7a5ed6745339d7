//! What an agent tells of.

use std::time::Duration;

use farmhand_core::attempt::AttemptRef;
use farmhand_store::protocol::NewEpoch;
use serde_json::Value;

use super::{Refused, TakeoverCause, Told};
use crate::snapshot::SlowRun;

/// Everything worth a log line, a metric or a row in `farmhand.event`.
#[derive(Clone, Debug)]
pub enum Event {
    /// This agent opened a session, and with it the node's lease.
    SessionOpened { session: i64 },
    /// This agent goes on with a session that an earlier agent opened and whose warden still runs.
    SessionAdopted {
        session: i64,
        /// How many attempts the warden was running.
        attempts: usize,
    },
    /// The first session of a boot fired the `@reboot` jobs.
    Booted {
        /// The kernel's name for this boot of the machine.
        boot_id: String,
        /// How many runs the boot fired.
        runs: usize,
    },
    /// Another agent expired this agent's session.
    SessionLost { session: i64 },
    /// A copy of this machine uses the session, too: both end what they run.
    SessionShared {
        /// The session that two agents use.
        session: i64,
    },
    /// This agent ended its own session.
    SessionClosed {
        session: i64,
        /// How many of its runs other nodes may now claim.
        freed: usize,
    },
    /// A newer agent has taken the warden over.
    Superseded,
    Renewed {
        /// Fraction of the TTL.
        remaining: f64,
        /// How long the lease lasts from a renewal.
        ttl: Duration,
    },
    /// The database refused or did not answer a renewal.
    RenewalFailed {
        /// What it or the connection said.
        error: String,
    },
    /// All processes were ended by the kernel or by us because the lease could not be renewed in time.
    LeaseLapsed { session: i64, attempts: usize },
    Claimed {
        /// The attempt that the claim made.
        attempt: AttemptRef,
        /// From the instant the run was due or ready to its claim.
        lag: Duration,
        /// Why another attempt of it had been lost; none for a run that is no takeover.
        takeover: Option<TakeoverCause>,
    },
    ClaimTook {
        /// Its round trip.
        took: Duration,
    },
    /// Another agent was first, or nothing was left to claim.
    ClaimLost {
        /// The kind of run that was sought, as metrics say it.
        kind: &'static str,
    },
    ClaimFailed {
        /// What the database or the connection said.
        error: String,
    },
    /// An attempt's command runs.
    Started {
        attempt: AttemptRef,
        /// The process that the warden started for it.
        pid: i32,
    },
    /// The attempt ended its run; `ran` is absent when it never started.
    Ended {
        /// The attempt that was the run's last.
        attempt: AttemptRef,
        /// The run's final outcome, as rows and metrics say it.
        outcome: &'static str,
        /// From exec to exit.
        ran: Option<Duration>,
        /// What the row keeps of how the command ended.
        detail: Value,
    },
    /// An attempt failed, and its run is to be tried again.
    Retrying {
        attempt: AttemptRef,
        /// How it ended, as rows and metrics say it.
        outcome: &'static str,
        /// How long the run waits before its next attempt.
        delay: Duration,
    },
    /// We ended it, or its warden died: as `on_lost` says.
    AttemptLost { attempt: AttemptRef, why: &'static str },
    /// An attempt took too long and is ended.
    TimedOut {
        attempt: AttemptRef,
        /// Whether it made no progress for too long; else it ran past its timeout.
        progress: bool,
    },
    /// Claimed runs given back unstarted.
    Released {
        /// The session that had claimed them.
        session: i64,
        runs: usize,
        /// Why they were not started.
        why: &'static str,
    },
    /// A write about an attempt was refused: the run had moved on.
    Fenced {
        op: &'static str,
        /// The run that the write was about.
        run_id: i64,
        /// The attempt that the write was about.
        attempt: i32,
        /// What the run's row said instead.
        now: String,
    },
    /// We ended an attempt that no longer was ours to run.
    FenceKill {
        /// The run of the attempt that was ended.
        run_id: i64,
        attempt: i32,
        /// Why it was no longer this agent's to run.
        why: &'static str,
    },
    /// The node's policy does not let the job run as this user.
    UserRefused {
        /// The attempt that was not started.
        attempt: AttemptRef,
        /// The user that the job names.
        user: String,
        why: String,
    },
    /// No trusted key vouches for what this node was to execute, or its run has a key that its job does not take.
    DefinitionRefused {
        /// The attempt that was not started.
        attempt: AttemptRef,
        /// What is missing or refused.
        why: String,
    },
    /// A child of an attempt went over its limit.
    ChildKilled {
        /// The attempt that the child belongs to.
        attempt: AttemptRef,
        /// The name by which the job limits it.
        name: String,
        pid: i32,
        /// Which limit it went over, as a sentence.
        what: String,
    },
    /// A command ended by itself, and what it had left in the background was ended with it.
    LeftoversEnded {
        /// The attempt that it was.
        attempt: AttemptRef,
        /// How many processes; in a PID namespace 1, however many they were.
        processes: u32,
    },
    /// Processes of an attempt do not end by SIGKILL.
    Unkillable { run_id: i64, attempt: i32 },
    /// A run takes longer than usual; said once.
    RunSlow(SlowRun),
    /// Due instants of a job made no runs.
    Skipped {
        job_id: String,
        /// Why, as the record of the skip says it.
        reason: String,
        count: u64,
    },
    /// This agent expired another node's session.
    Expired {
        address: String,
        session: i64,
        /// How long this agent had seen no renewal of it.
        silent: Duration,
        /// How many of its runs other nodes may now claim.
        freed: usize,
    },
    /// A warden does not answer.
    RenewalWithheld {
        /// The session that is not renewed until the warden confirms its deadline.
        session: i64,
    },
    /// Runs waited for a lock. Its holder, a named lease, was no longer renewed.
    LeaseFreed {
        /// The lock, and the named lease.
        name: String,
        /// The program that held it, as it named itself.
        client: String,
        /// The login by which it held it.
        login: String,
    },
    /// Runs were free that ended sessions had claimed.
    Swept { freed: usize },
    /// Each-node runs whose node is gone.
    Abandoned {
        /// How many are lost.
        runs: usize,
    },
    /// Restarted, restored or replaced: nothing is claimed until it is known again.
    DatabaseUnknown {
        /// The epoch that the database says it is in.
        epoch: i64,
    },
    /// A new epoch was opened: agents claim again.
    EpochOpened(NewEpoch),
    /// The database is in another epoch than this agent knew.
    EpochChanged {
        /// The epoch that this agent knew.
        from: i64,
        /// The epoch that the database is in.
        to: i64,
    },
    /// The machine refuses to start processes.
    StartsRefused { why: String },
    /// A process started again on a machine that had refused it.
    StartsResumed { after: Duration },
    /// The machine's clock began or ceased to tick at another rate than its own.
    ClockSlewed { slewed: bool },
    /// The database answers, after so long if it had been away.
    DatabaseUp {
        /// How long it had not answered; none for the first answer to this agent.
        away: Option<Duration>,
    },
    /// The database does not answer this agent: the first failure of an outage.
    DatabaseAway,
    /// A statement failed.
    DatabaseDown {
        op: &'static str,
        /// The class of the error, as metrics say it.
        class: &'static str,
        /// What the database or the connection said.
        error: String,
    },
    /// The database's wall clock was compared with this machine's.
    ClockOffset {
        /// The database's clock minus this machine's.
        seconds: f64,
    },
    /// What a job left behind stays on the disk.
    NotRemoved {
        run_id: i64,
        attempt: i32,
        error: String,
    },
    /// Output of an attempt was not kept.
    OutputDropped {
        /// The run whose output it was.
        run_id: i64,
        attempt: i32,
        /// How much is lost, in bytes.
        bytes: u64,
        /// What kept it from being written; none when it was over the local cap.
        error: Option<String>,
    },
    /// The service that takes the runs' lines is out of reach, or there again.
    RunLog {
        /// The socket of journald or syslog.
        socket: String,
        /// What is wrong with it; none when lines go there again.
        trouble: Option<String>,
    },
    /// A stored definition cannot be used by this agent.
    BadDefinition {
        /// The job that is not run.
        job_id: String,
        /// What is wrong with its definition.
        error: String,
    },
    /// A table job's table is not as its definition wants it.
    TableRefused {
        /// The table job of which no rows are run.
        job_id: String,
        /// What is wrong with the table.
        error: String,
    },
    /// Rows of a table job wait whose key is NULL.
    RowsWithoutKey { job_id: String },
    /// The configuration was read again; what is named waits for a restart.
    Reloaded {
        /// The settings that changed and are read only at a start.
        restart_needed: Vec<&'static str>,
    },
    /// The configuration could not be read again; the one of before holds.
    ReloadFailed {
        /// What is wrong with it.
        error: String,
    },
    /// This agent claims nothing more, and waits for or ends what runs.
    Draining {
        /// Who wanted it, or what is done to what runs.
        why: &'static str,
    },
    /// The drain's deadline passed: these are ended, to run elsewhere.
    DrainDeadline { attempts: usize },
    /// A node that was told to drain runs nothing any more.
    Drained,
    /// People were told, or not.
    Told(Told),
    Answered {
        /// The HTTP status of the answer.
        status: u16,
    },
    /// The API turned a request away; only counted, `Refused` tells of it.
    TurnedAway {
        /// One of a closed set; see `docs/reference/metrics.md`.
        reason: &'static str,
    },
    /// Requests to the API that were turned away, folded.
    Refused(Refused),
    /// A regular task of the farm was done or failed.
    Housekeeping {
        task: &'static str,
        /// What went wrong; none when it was done.
        error: Option<String>,
    },
}
