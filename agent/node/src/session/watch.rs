//! Looking at the farm: silent nodes, work that nobody took up, requests from people.

use std::sync::atomic::Ordering;
use std::time::Duration;

use farmhand_core::lease::{BootInstant, NamedKey, NodeKey, claim_delay, rank};
use farmhand_store::leases;
use farmhand_store::protocol::{self, Expired, Poll};
use farmhand_store::{Note, StoreError};

use super::{Input, Session};
use crate::failure_detector::{EPOCH, UNFREED, named_token, node_token};
use crate::inbox::Watched;
use crate::outage::Unanswered;
use crate::scheduler::TRYING_RANKS;
use crate::tables::TABLE_RANKS;
use farmhand_os::clock::boot_now;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::AttemptId;

impl Session {
    pub(super) fn poll_if_due(&mut self, now: BootInstant) {
        if !self.detector.take_due(now) {
            return;
        }
        let below = self.detector.ask(now);
        self.scheduler.polls();
        let (ctx, me) = (self.ctx.clone(), self.me.clone());
        self.spawn(async move {
            let sent = boot_now();
            let result = protocol::poll(&ctx.db, &me, &below).await;
            // The challenger's rule: read after the reply was received.
            Input::Polled {
                sent,
                received: boot_now(),
                result,
            }
        });
    }

    pub(super) fn on_polled(
        &mut self,
        sent: BootInstant,
        received: BootInstant,
        result: Result<Poll, StoreError>,
    ) {
        self.note_db("poll", Unanswered::Outage, &result);
        let poll = match result {
            Ok(poll) => poll,
            Err(_) => {
                self.detector.poll_failed(received);
                return;
            }
        };
        self.db_clock.observe(sent, received, poll.db_now);
        let from = self.detector.polled(&self.me.address, received, &poll);
        if let Some(from) = from {
            let to = poll.database.epoch;
            self.emit(Event::EpochChanged { from, to });
        }
        self.know(&poll.database);
        let exposes = self.ctx.config.listen.map(|_| self.ctx.config.snapshot_every);
        self.ctx.bell.polled(&poll, exposes);
        self.scheduler.set_live(poll.live_addresses);
        let anew = from.is_some() || self.scheduler.was_set_back(poll.job_seq);
        if anew {
            self.scheduler.start_over();
            self.jobs_outdated = self.loading_jobs;
        }
        if self.scheduler.is_behind(poll.job_seq) || anew {
            self.load_jobs(Some(poll.job_seq));
        }
        // What has just become due is somebody's turn; left alone for longer, it is everybody's.
        let left_alone = poll
            .earliest_next_run
            .is_some_and(|at| at + OVERDUE_AFTER <= poll.db_now);
        if left_alone {
            self.load_overdue();
        }
        if poll.unsettled {
            self.trigger_dispatcher.left_behind();
        }
        if let Some(ready) = poll.earliest_ready {
            self.scheduler.hint_at(self.db_clock.boot_at(ready, received));
        }
        self.gates = poll.gates;
        if let Some(at) = poll.gated_at {
            self.hint_gated(at, received);
        }
        for wanted in poll.cancels {
            self.cancel(AttemptId {
                run_id: wanted.run_id,
                attempt: wanted.attempt,
            });
        }
        let drain = poll.draining.then_some(poll.drain_until);
        self.ordered(poll.cordoned, drain, poll.db_now, received);
        self.correct_row(poll.leaving);
        self.forget_refusals_if_changed();
        if self.ctx.unfreed.swap(false, Ordering::Relaxed) {
            self.free_ended();
        }
        self.act_on_ripe(received);
    }

    /// A run that waits for a pool, a lock or a rate may be claimable at `at`: at once for everybody when that has
    /// passed, else in an order that spares the database the herd; whom it leaves out the next poll tells.
    fn hint_gated(&mut self, at: jiff::Timestamp, received: BootInstant) {
        let mut at_boot = self.db_clock.boot_at(at, received);
        if at_boot > received {
            let rank = rank("", at.as_microsecond(), &self.me.address, self.scheduler.live());
            if rank >= TRYING_RANKS {
                return;
            }
            at_boot = at_boot + claim_delay(rank);
        }
        self.scheduler.hint_at(at_boot);
    }

    fn act_on_ripe(&mut self, now: BootInstant) {
        let ripe = self.detector.take_ripe(now);
        for (key, silent) in ripe.expire {
            self.expire(key, silent);
        }
        for key in ripe.free {
            self.free_lease(key);
        }
        if let Some(watched) = ripe.open_epoch {
            let (ctx, me) = (self.ctx.clone(), self.me.clone());
            self.act_on("open_epoch", EPOCH.to_owned(), async move {
                let memory = ctx.memory.latest();
                let opened = protocol::open_epoch(&ctx.db, &watched, &me.address, memory.as_ref()).await?;
                Ok(opened.map(Event::EpochOpened))
            });
        }
    }

    fn expire(&mut self, key: NodeKey, silent: Duration) {
        let ctx = self.ctx.clone();
        self.act_on("expire", node_token(&key), async move {
            let expired =
                protocol::expire(&ctx.db, &key.address, key.session, key.incarnation, key.renewals).await?;
            Ok(match expired {
                Expired::Done { freed } => {
                    ctx.unfreed.store(true, Ordering::Relaxed);
                    Some(Event::Expired {
                        address: key.address,
                        session: key.session,
                        silent,
                        freed: freed.len(),
                    })
                }
                Expired::Changed => None,
            })
        });
    }

    /// What somebody had locked when its session ended. The sweep of any agent finds it, too, should this one end.
    fn free_ended(&self) {
        let ctx = self.ctx.clone();
        self.spawn(async move {
            let result = protocol::free_ended(&ctx.db).await;
            let left = result.as_ref().map_or(true, |ended| ended.left);
            ctx.unfreed.fetch_or(left, Ordering::Relaxed);
            let found = result.as_ref().is_ok_and(|ended| !ended.freed.is_empty());
            let event = match result {
                Ok(_) if !found => None,
                Ok(ended) => Some(Event::Swept {
                    freed: ended.freed.len(),
                }),
                Err(e) => Some(Event::database_down("free_ended", &e)),
            };
            Input::Watched(Watched {
                token: UNFREED.to_owned(),
                event,
                // Then the next poll comes at once. It would find the same lock.
                answered: found && !left,
            })
        });
    }

    fn free_lease(&mut self, key: NamedKey) {
        let ctx = self.ctx.clone();
        self.act_on("free_lease", named_token(&key), async move {
            let freed = leases::free(&ctx.db, &key.name, &key.shown).await?;
            Ok(freed.map(|left| Event::LeaseFreed {
                name: key.name,
                client: left.client,
                login: left.login,
            }))
        });
    }

    /// Sends a statement about what has been watched for long enough, and says what it changed.
    fn act_on(
        &self,
        op: &'static str,
        token: String,
        statement: impl Future<Output = Result<Option<Event>, StoreError>> + Send + 'static,
    ) {
        self.spawn(async move {
            let result = statement.await;
            let answered = result.is_ok();
            let event = result.unwrap_or_else(|e| Some(Event::database_down(op, &e)));
            Input::Watched(Watched {
                token,
                event,
                answered,
            })
        });
    }

    pub(super) fn on_watched(&mut self, watched: Watched) {
        self.detector.done(&watched.token, watched.answered);
        if let Some(event) = watched.event {
            self.emit(event);
        }
        if watched.answered {
            self.scheduler.hint();
            // Some of it may have ended runs of rows.
            self.ctx.row_bell.ring();
        }
    }

    pub(super) fn load_jobs(&mut self, newest: Option<i64>) {
        if std::mem::replace(&mut self.loading_jobs, true) {
            return;
        }
        let (ctx, after) = (self.ctx.clone(), self.scheduler.seq());
        self.spawn(async move {
            Input::JobsLoaded {
                after,
                newest,
                result: protocol::jobs_since(&ctx.db, after).await,
            }
        });
    }

    fn load_overdue(&self) {
        let ctx = self.ctx.clone();
        self.spawn(async move { Input::OverdueLoaded(protocol::overdue(&ctx.db, OVERDUE_BATCH).await) });
    }

    /// Polls once a job that is due now would count as overdue; an earlier poll would not show it. A job that was due before waits as long:
    /// one that cannot be fired, because its row is locked say, would be tried without a pause.
    pub(super) fn look_for_overdue(&mut self) {
        self.detector
            .poll_at(boot_now() + OVERDUE_AFTER.unsigned_abs() + A_LITTLE);
    }

    /// A notification: poll sooner, in an order that spares the database the herd.
    pub(super) fn on_note(&mut self, note: &Note) {
        match note {
            Note::Due { node: Some(node), .. } => {
                if *node == self.me.address {
                    self.scheduler.hint_at(boot_now());
                }
            }
            Note::Due {
                run_id, job, runs, ..
            } => {
                let job = job.as_deref().unwrap_or_default();
                let rank = rank(job, *run_id, &self.me.address, self.scheduler.live());
                // The others' polls tell them of what these leave undone.
                let wanted = usize::try_from(*runs).unwrap_or(TRYING_RANKS);
                if rank < TRYING_RANKS {
                    self.scheduler.hint_at(boot_now() + claim_delay(rank));
                } else if rank < wanted {
                    // Several runs: more nodes, not later ones.
                    self.scheduler.hint_at(boot_now() + claim_delay(TRYING_RANKS - 1));
                }
            }
            Note::Rows { job } => {
                let rank = self.table_rank(job);
                if rank < TABLE_RANKS {
                    self.tables.poll_at(job, boot_now() + claim_delay(rank));
                }
            }
            Note::Jobs { seq } if *seq <= self.scheduler.seq() => {}
            Note::Cancel { node, .. } if *node != self.me.address => {}
            Note::Node { address } if *address != self.me.address => {}
            Note::Node { .. } => self.lease.renew_now(),
            Note::Jobs { .. } => self.load_jobs(None),
            Note::Cancel { .. } => self.detector.poll_now(),
            Note::Reconnected { direct } => {
                self.detector.told(*direct);
                self.detector.poll_now();
            }
        }
    }
}

/// How long a due job is left to the agents whose turn it is.
const OVERDUE_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_millis(700);

/// By so much the database's clock may be behind what it is taken to be.
const A_LITTLE: Duration = Duration::from_millis(20);

/// Overdue jobs read at once; the next poll brings more.
const OVERDUE_BATCH: i64 = 10_000;

#[cfg(test)]
mod tests {
    use farmhand_core::lease::LeaseTiming;

    use super::*;
    use crate::failure_detector::FailureDetector;
    use crate::failure_detector::tests::poll;

    #[test]
    fn a_poll_that_is_asked_for_while_one_is_under_way_comes_after_it() {
        let timing = LeaseTiming::new(Duration::from_secs(30)).expect("long enough");
        let mut detector = FailureDetector::new(timing, false, (0, Duration::ZERO));
        let (now, reply) = (BootInstant(1_000_000_000), poll(1, 1, true, 30_000));
        assert!(detector.take_due(now));
        // A run is to be cancelled, say, and the poll has looked already.
        detector.poll_now();
        assert!(!detector.take_due(now), "one at a time");
        detector.polled("me", now, &reply);
        assert!(detector.take_due(now));
        detector.polled("me", now, &reply);
        assert!(!detector.take_due(now), "once");
        let later = now + Duration::from_millis(700);
        detector.poll_at(later);
        assert_eq!(detector.next_wakeup(), Some(later));
        detector.poll_now();
        assert!(detector.take_due(now));
        detector.polled("me", now, &reply);
        assert_eq!(
            detector.next_wakeup(),
            Some(later),
            "an earlier poll does not say"
        );
    }
}
