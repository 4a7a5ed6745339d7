//! Rows of table jobs become runs.

use farmhand_core::lease::{BootInstant, rank};
use farmhand_store::StoreError;
use farmhand_store::tables::{self, Dispatched};

use super::{Input, Session};
use crate::outage::Unanswered;
use farmhand_os::clock::boot_now;
use farmhand_os::random::random;
use farmhand_telemetry::events::Event;

impl Session {
    /// How many agents come before this one in looking for rows of a job.
    pub(super) fn table_rank(&self, job_id: &str) -> usize {
        rank(job_id, 0, &self.me.address, self.scheduler.live())
    }

    fn has_rows_login(&self) -> bool {
        self.ctx.config.rows_database_url.is_some()
    }

    pub(super) fn dispatch_if_due(&mut self, now: BootInstant) {
        if !self.may_work(now) {
            return;
        }
        let (own, live) = (&self.me.address, self.scheduler.live());
        let due = self.tables.take_due(now, |job| rank(job, 0, own, live), random);
        for job_id in due {
            let ctx = self.ctx.clone();
            self.spawn(async move {
                let result = tables::dispatch(&ctx.tables_db, &job_id).await;
                Input::Dispatched { job_id, result }
            });
        }
    }

    pub(super) fn on_dispatched(&mut self, job_id: &str, result: Result<Dispatched, StoreError>) {
        // Only this agent's own connections tell whether its database is away. What fails with another login is told of the job,
        // but for a connection that broke or leads to a standby: the next poll makes a new one.
        let result = match result {
            Err(
                lost @ (StoreError::ConnectionLost { .. } | StoreError::ReadOnly | StoreError::WritesOff),
            ) => Err(lost),
            Err(error) if self.has_rows_login() && !self.ctx.outage.lasts() => Ok(Dispatched {
                problem: Some(format!("the login for rows: {error}")),
                ..Dispatched::default()
            }),
            result => result,
        };
        if !self.has_rows_login() {
            self.note_db("dispatch_rows", Unanswered::Slow, &result);
        }
        if let Some(error) = self.tables.polled(job_id, &result, boot_now()) {
            self.emit(Event::TableRefused {
                job_id: job_id.to_owned(),
                error,
            });
        }
        if let Ok(answer) = &result
            && self.tables.lacks_keys(job_id, answer)
        {
            self.emit(Event::RowsWithoutKey {
                job_id: job_id.to_owned(),
            });
        }
        if result.as_ref().is_ok_and(|answer| answer.unwritten) {
            self.ctx.row_bell.ring();
        }
        if result.is_ok_and(|answer| answer.made > 0) {
            self.scheduler.hint();
        }
    }
}
