//! Whether the database is still the one that this agent knows.

use farmhand_core::lease::{Database, Remembered};
use farmhand_store::{StoreError, protocol};
use farmhand_telemetry::events::Event;

use super::{Input, Session};

impl Session {
    /// A renewal was confirmed by this database, and what runs here was compared with it.
    pub(super) fn learned(&mut self, database: Database, renewals: i64) {
        self.know(&database);
        let memory = &self.ctx.memory;
        if !database.open || memory.contradicting(&database).is_some() {
            return;
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
            address: self.me.address.clone(),
            session: self.me.session,
            incarnation: self.me.incarnation,
            renewals,
            boot: memory.boot().map(str::to_owned),
        });
        let durable = memory.is_durable();
        if durable {
            self.detector.compared(key.clone());
        }
        let (ctx, tx) = (self.ctx.clone(), self.tx.clone());
        tokio::task::spawn_blocking(move || match ctx.memory.write() {
            // A closed channel: the session is over.
            Ok(true) if !durable => drop(tx.blocking_send(Input::Remembered(key))),
            Ok(_) => {}
            // Nothing is claimed in an epoch that this agent could forget. The next renewal tries again.
            Err(e) => tracing::error!(
                "{}: cannot write what is remembered of the database: {e}; nothing is claimed in a new epoch until that is possible",
                ctx.memory.dir().display()
            ),
        });
    }

    /// Opens claims on a database that was only started again; closes them on one that has less than was seen of it.
    pub(super) fn know(&mut self, shown: &Database) {
        let Some(memory) = self.ctx.memory.latest() else {
            return;
        };
        let (ctx, shown) = (self.ctx.clone(), Box::new(shown.clone()));
        if shown.open && memory.contradicts(&shown) {
            self.spawn(async move {
                let known = protocol::doubt(&ctx.db, &shown, &memory)
                    .await
                    .map(|closed| !closed);
                Input::Known { shown, known }
            });
        } else if shown.open {
            // Another agent may have opened this epoch without having seen them.
            if memory.knows_more_runs(&shown) && self.raised_in != Some(shown.key()) {
                self.raised_in = Some(shown.key());
                self.spawn(async move {
                    let raised = protocol::raise_sequences(&ctx.db, memory.run).await;
                    Input::RunsRaised(raised.is_ok())
                });
            }
            self.ctx.memory.saw(&shown);
        } else if self.unknown != Some(shown.key()) {
            self.spawn(async move {
                let mut known = protocol::vouch(&ctx.db, &memory).await;
                if let Ok(false) = known {
                    known = protocol::remind(&ctx.db, &memory).await.map(|()| false);
                }
                Input::Known { shown, known }
            });
        }
    }

    /// Whether the database is known was asked; without an answer the next poll asks again.
    pub(super) fn on_known(&mut self, shown: &Database, known: &Result<bool, StoreError>) {
        match known {
            Ok(true) => {
                self.detector.poll_now();
                self.lease.renew_now();
            }
            Ok(false) if self.unknown != Some(shown.key()) => {
                self.unknown = Some(shown.key());
                self.emit(Event::DatabaseUnknown { epoch: shown.epoch });
            }
            _ => {}
        }
    }
}
