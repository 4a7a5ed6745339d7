//! Whether the database answers, whether it is still the one that this agent knows, and what its clock shows.

use farmhand_core::lease::{BootInstant, Database, EpochKey, Remembered};
use farmhand_store::{StoreError, protocol};
use farmhand_telemetry::events::Event;

use super::clock::DbClock;
use crate::inbox::Input;
use crate::outage::Unanswered;
use crate::session::io::Io;

#[derive(Debug, Default)]
pub(crate) struct KnownDatabase {
    pub(crate) clock: DbClock,
    /// The database that could not be told for the one of before, said once.
    unknown: Option<EpochKey>,
    /// The database that was told of the numbers of runs that were seen here.
    raised_in: Option<EpochKey>,
    /// This session has met an outage, and no answer since.
    was_away: bool,
}

impl KnownDatabase {
    /// The first look at each answer: notes whether the database answers, and says so when that changes. True when it answers
    /// again after an outage that this session has met.
    pub(crate) fn heard(&mut self, io: &Io, input: &Input, now: BootInstant) -> bool {
        let Some((op, unanswered, error)) = answer(io, input) else {
            return false;
        };
        let Some(error) = error else {
            if let Some(away) = io.ctx.outage.end(now) {
                io.emit(Event::DatabaseUp { away: Some(away) });
            }
            // Another task of this agent may have seen the end of the outage first.
            return std::mem::take(&mut self.was_away);
        };
        if unanswered.is_outage(error) {
            self.was_away = true;
            if io.ctx.outage.begin(now) {
                io.emit(Event::DatabaseAway);
            }
        }
        io.emit(Event::database_down(op, error));
        false
    }

    /// A renewal was confirmed by this database, and what runs here was compared with it. True when the disk has its epoch; otherwise
    /// [`Input::Remembered`] says when it has.
    pub(crate) fn learned(&mut self, io: &Io, database: &Database, renewals: i64) -> bool {
        self.seen(io, database);
        let memory = &io.ctx.memory;
        if !database.open || memory.contradicting(database).is_some() {
            return false;
        }
        let key = database.key();
        memory.learn(Remembered {
            farm_id: database.farm_id,
            epoch: database.epoch,
            id: database.id,
            pulse: database.pulse,
            fence: database.fence,
            run: database.run,
            longest_lease_ms: database.longest_lease_ms,
            address: io.me.address.clone(),
            session: io.me.session,
            incarnation: io.me.incarnation,
            renewals,
            boot: memory.boot().map(str::to_owned),
        });
        let (ctx, durable) = (io.ctx.clone(), memory.is_durable());
        io.spawn(async move {
            let write = move || match ctx.memory.write() {
                Ok(written) => written,
                // Nothing is claimed in an epoch that this agent could forget. The next renewal tries again.
                Err(e) => {
                    tracing::error!(
                        "{}: cannot write what is remembered of the database: {e}; nothing is claimed in a new epoch until that is possible",
                        ctx.memory.dir().display()
                    );
                    false
                }
            };
            let written = tokio::task::spawn_blocking(write).await;
            (written.unwrap_or(false) && !durable).then_some(Input::Remembered(key))
        });
        durable
    }

    /// Opens claims on a database that was only started again; closes them on one that has less than was seen of it.
    pub(crate) fn seen(&mut self, io: &Io, shown: &Database) {
        let Some(memory) = io.ctx.memory.latest() else {
            return;
        };
        let (ctx, shown) = (io.ctx.clone(), Box::new(shown.clone()));
        if shown.open && memory.contradicts(&shown) {
            io.spawn(async move {
                let known = protocol::doubt(&ctx.db, &shown, &memory)
                    .await
                    .map(|closed| !closed);
                Input::Known { shown, known }
            });
        } else if shown.open {
            // Another agent may have opened this epoch without having seen them.
            if memory.knows_more_runs(&shown) && self.raised_in != Some(shown.key()) {
                self.raised_in = Some(shown.key());
                io.spawn(async move {
                    let raised = protocol::raise_sequences(&ctx.db, memory.run).await;
                    Input::RunsRaised(raised.is_ok())
                });
            }
            io.ctx.memory.saw(&shown);
        } else if self.unknown != Some(shown.key()) {
            io.spawn(async move {
                let mut known = protocol::vouch(&ctx.db, &memory).await;
                if let Ok(false) = known {
                    known = protocol::remind(&ctx.db, &memory).await.map(|()| false);
                }
                Input::Known { shown, known }
            });
        }
    }

    /// Whether the database is the one that is remembered, and claims are open on it now. Without an answer the next poll asks again.
    pub(crate) fn identified(&mut self, io: &Io, shown: &Database, known: &Result<bool, StoreError>) -> bool {
        if let Ok(false) = known
            && self.unknown != Some(shown.key())
        {
            self.unknown = Some(shown.key());
            io.emit(Event::DatabaseUnknown { epoch: shown.epoch });
        }
        matches!(known, Ok(true))
    }

    pub(crate) fn runs_raised(&mut self, raised: bool) {
        if !raised {
            self.raised_in = None;
        }
    }
}

/// What an input says of the database: the statement, what its silence means, and its error. None for what is no answer of the
/// agent's own connections: what fails with a login for rows is told of the job.
fn answer<'a>(io: &Io, input: &'a Input) -> Option<(&'static str, Unanswered, Option<&'a StoreError>)> {
    let rows_login = io.ctx.config.rows_database_url.is_some();
    let (op, error) = match input {
        Input::Renewed { result, .. } => return Some(("renew", Unanswered::Outage, result.as_ref().err())),
        Input::Polled { result, .. } => return Some(("poll", Unanswered::Outage, result.as_ref().err())),
        Input::JobsLoaded { result, .. } => ("jobs_since", result.as_ref().err()),
        Input::OverdueLoaded(result) => ("overdue", result.as_ref().err()),
        Input::Fired { result, .. } => ("fire", result.as_ref().err()),
        Input::Claimed { result, .. } => ("claim", result.as_ref().err().map(|partial| &partial.error)),
        Input::Dispatched { result, .. } if !rows_login => ("dispatch_rows", result.as_ref().err()),
        Input::Triggered(result) => ("settle", result.as_ref().err()),
        Input::RefusalsForgotten(result) => ("forget_refusals", result.as_ref().err()),
        _ => return None,
    };
    Some((op, Unanswered::Slow, error))
}
