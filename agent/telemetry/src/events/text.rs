//! Events as sentences for the log.

use super::Event;

/// An event, to be displayed.
pub(super) struct Text<'a>(pub(super) &'a Event);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Event::SessionOpened { session } => write!(f, "opened session {session}"),
            Event::SessionAdopted { session, attempts } => {
                write!(
                    f,
                    "adopted session {session} with {attempts} running attempts from its warden"
                )
            }
            Event::Booted { boot_id, runs } => {
                write!(
                    f,
                    "boot {boot_id} is new to the farm: {runs} runs of @reboot jobs"
                )
            }
            Event::SessionLost { session } => {
                write!(
                    f,
                    "session {session} is over: another agent expired it; ending what it ran"
                )
            }
            Event::SessionShared { session } => write!(
                f,
                "session {session} is used by another agent, too: this machine was copied while its agent ran; both end what \
                 they run. Give one of them another --address, or stop it"
            ),
            Event::SessionClosed { session, freed } => {
                write!(f, "closed session {session}, {freed} runs freed")
            }
            Event::Superseded => write!(f, "a newer agent has taken over the warden; leaving"),
            Event::LeaseLapsed { session, attempts } => {
                write!(
                    f,
                    "the lease of session {session} lapsed unrenewed; {attempts} attempts were ended"
                )
            }
            Event::RenewalFailed { error } => write!(f, "lease renewal failed: {error}"),
            Event::ClaimFailed { error } => write!(f, "claim failed: {error}"),
            Event::Claimed {
                attempt: a,
                lag,
                takeover,
            } => write!(
                f,
                "claimed {a} fence {} ({} ms after due){}",
                a.fence,
                lag.as_millis(),
                takeover.map_or("", |_| ", a takeover")
            ),
            Event::Started { attempt: a, pid } => write!(f, "started {a} as pid {pid}"),
            Event::Ended {
                attempt: a,
                outcome,
                ran,
                detail,
            } => {
                write!(f, "{a} {outcome}")?;
                ran.map_or(Ok(()), |ran| write!(f, " after {ran:.3?} {detail}"))
            }
            Event::Retrying {
                attempt: a,
                outcome,
                delay,
            } => write!(f, "{a} {outcome}; again in {delay:.1?}"),
            Event::TimedOut {
                attempt: a,
                progress: true,
            } => write!(f, "{a} made no progress for too long"),
            Event::TimedOut { attempt: a, .. } => write!(f, "{a} ran past its timeout"),
            Event::UserRefused { attempt: a, why, .. } | Event::DefinitionRefused { attempt: a, why } => {
                write!(f, "{a}: {why}")
            }
            Event::ChildKilled { attempt: a, what, .. } => write!(f, "{a}: {what}"),
            Event::LeftoversEnded { attempt: a, .. } => {
                write!(f, "{a}: what it left in the background was ended with it")
            }
            Event::AttemptLost { attempt: a, why } => write!(f, "{a} is lost: {why}"),
            Event::Released { runs, why, .. } => write!(f, "gave back {runs} claimed runs unstarted: {why}"),
            Event::Fenced {
                op,
                run_id,
                attempt,
                now,
            } => {
                write!(
                    f,
                    "{op} of run {run_id} attempt {attempt} refused: the run has moved on ({now})"
                )
            }
            Event::FenceKill { run_id, attempt, why } => {
                write!(f, "killed run {run_id} attempt {attempt}: {why}")
            }
            Event::Unkillable { run_id, attempt } => {
                write!(
                    f,
                    "run {run_id} attempt {attempt} has processes the kernel cannot end"
                )
            }
            Event::RunSlow(slow) => write!(
                f,
                "{} run {} attempt {} has run for {:.0?} on {}, {}",
                slow.run.job_id,
                slow.run.run_id,
                slow.run.attempt,
                slow.run.lasted(),
                slow.run.node,
                slow.exceeded
            ),
            Event::Skipped {
                job_id,
                reason,
                count,
            } => write!(f, "skipped {count} due instants of {job_id}: {reason}"),
            Event::Expired {
                address,
                session,
                silent,
                freed,
            } => write!(
                f,
                "expired session {session} of node {address}, silent for {silent:.1?}; {freed} runs are free"
            ),
            Event::RenewalWithheld { session } => write!(
                f,
                "session {session} is not renewed: the warden has not confirmed its deadline; if it does not, the lease lapses"
            ),
            Event::LeaseFreed { name, client, login } => write!(
                f,
                "freed the lock {name}, for which runs wait: {client} (login {login}) had it and no longer renews it"
            ),
            Event::Abandoned { runs } => {
                write!(
                    f,
                    "{runs} runs waited too long for nodes that are gone; they are lost"
                )
            }
            Event::Swept { freed } => write!(f, "freed {freed} runs claimed by sessions that had ended"),
            Event::DatabaseUnknown { epoch } => write!(
                f,
                "the database in epoch {epoch} is not as this agent left it: failed over, restored or moved; nothing is \
                 claimed until it was watched for the longest lease"
            ),
            Event::EpochOpened(new) => {
                write!(
                    f,
                    "opened epoch {} of the database for claims, after epoch {}",
                    new.epoch, new.follows
                )?;
                if let Some(why) = new.why {
                    write!(f, ": {}", why.because())?;
                }
                match new.runs_forgotten {
                    Some(0) => f.write_str("; no run is forgotten"),
                    Some(runs) => write!(f, "; at most {runs} runs are forgotten"),
                    None => f.write_str("; how many runs are forgotten is unknown"),
                }
            }
            Event::EpochChanged { from, to } => {
                write!(
                    f,
                    "the database is in epoch {to}, was {from}: comparing what runs here before claiming"
                )
            }
            Event::StartsRefused { why } => write!(
                f,
                "this machine starts no runs: {why}; they are given back, and less is claimed until one starts"
            ),
            Event::StartsResumed { after } => write!(
                f,
                "this machine starts runs again; it had not for {:.1} s",
                after.as_secs_f64()
            ),
            Event::ClockSlewed { slewed: true } => {
                write!(
                    f,
                    "this machine's clock is being slewed; expiring nobody and holding shorter leases"
                )
            }
            Event::ClockSlewed { slewed: false } => {
                write!(f, "this machine's clock ticks at its own rate again")
            }
            Event::DatabaseUp { away: None } => write!(f, "PostgreSQL answers"),
            Event::DatabaseUp { away: Some(away) } => {
                write!(
                    f,
                    "PostgreSQL answers again; it had not for {:.1} s",
                    away.as_secs_f64()
                )
            }
            Event::DatabaseAway => write!(f, "PostgreSQL does not answer"),
            Event::DatabaseDown { op, class, error } => {
                write!(f, "PostgreSQL: {op} failed ({class}): {error}")
            }
            Event::NotRemoved {
                run_id,
                attempt,
                error,
            } => write!(
                f,
                "files of run {run_id} attempt {attempt} were not removed: {error}"
            ),
            Event::OutputDropped {
                run_id,
                attempt,
                bytes,
                error,
            } => {
                let why = error.as_deref().unwrap_or("over the local cap");
                write!(
                    f,
                    "run {run_id} attempt {attempt}: {bytes} bytes of output were not kept: {why}"
                )
            }
            Event::RunLog {
                socket,
                trouble: Some(why),
            } => write!(f, "the runs' lines cannot be sent to {socket}: {why}; trying on"),
            Event::RunLog {
                socket,
                trouble: None,
            } => write!(f, "the runs' lines go to {socket} again"),
            Event::BadDefinition { job_id, error } => write!(f, "job {job_id} cannot be used: {error}"),
            Event::TableRefused { job_id, error } => write!(f, "no rows of job {job_id} can be run: {error}"),
            Event::RowsWithoutKey { job_id } => write!(
                f,
                "rows of job {job_id} wait and are never run: their key is NULL; give them keys, and then set the key's columns NOT NULL"
            ),
            Event::Reloaded { restart_needed } if restart_needed.is_empty() => {
                write!(f, "configuration read again")
            }
            Event::Reloaded { restart_needed } => {
                write!(
                    f,
                    "configuration read again; these need a restart: {}",
                    restart_needed.join(", ")
                )
            }
            Event::ReloadFailed { error } => write!(f, "the configuration stays as it was: {error}"),
            Event::Draining { why } => write!(f, "draining: {why}"),
            Event::DrainDeadline { attempts } => {
                write!(
                    f,
                    "the drain's deadline has passed; {attempts} attempts are ended"
                )
            }
            Event::Told(told) => write!(f, "{told}"),
            Event::Refused(refused) => write!(f, "{refused}"),
            Event::Drained => write!(f, "drained: nothing runs here"),
            Event::Housekeeping { task, error: None } => write!(f, "housekeeping: {task} done"),
            Event::Housekeeping { task, error: Some(e) } => write!(f, "housekeeping: {task} failed: {e}"),
            Event::Renewed { .. }
            | Event::ClaimTook { .. }
            | Event::ClaimLost { .. }
            | Event::Answered { .. }
            | Event::TurnedAway { .. }
            | Event::ClockOffset { .. } => {
                write!(f, "{:?}", self.0)
            }
        }
    }
}
