//! Ends of attempts on their way into the database.

use std::collections::HashMap;
use std::time::Duration;

use farmhand_core::retry::full_jitter;
use farmhand_store::StoreError;
use farmhand_store::protocol::{self, Finish, FinishResult, Lose, Retry};
use tokio::time::Instant;

use super::answer::Answer;
use super::report::{Ended, Followed};
use super::rows::{finish_row, lose_row, op, retry_row};
use super::sets::{SHIP_SET, SLOW_AGAIN, is_slow};
use super::{Reporter, refused};
use crate::inbox::Settled;
use crate::verdict::Verdict;
use farmhand_os::random::random;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::AttemptId;

impl Reporter {
    /// Ends that had to wait: for open claims, for a statement that took too long, or for somebody who repairs the database.
    pub(super) async fn settle_waiting(&mut self) {
        let closed = std::mem::take(&mut self.closed);
        if !closed.is_empty() {
            self.settle(closed).await;
        }
        // One that has to wait again ends this: each may take as long as a statement may.
        while Instant::now() >= self.slow_again
            && let Some(end) = self.slow.pop_front()
        {
            self.settle(vec![end]).await;
        }
    }

    /// Writes a set of ends down, however long the database is away.
    pub(super) async fn settle(&mut self, mut ended: Vec<Ended>) {
        let mut failures = 0u32;
        loop {
            match self.try_settle(&mut ended).await {
                Ok(settled) => {
                    self.finish(ended, settled).await;
                    return;
                }
                Err(e) => {
                    self.events.emit(Event::database_down("finish", &e));
                    if ended.len() > 1 && (!e.is_away() || is_slow(&e)) {
                        // Whose fault it is shows when they are fewer.
                        let rest = ended.split_off(ended.len() / 2);
                        Box::pin(self.settle(ended)).await;
                        Box::pin(self.settle(rest)).await;
                        return;
                    }
                    if let [only] = ended.as_mut_slice()
                        && (e.is_refusal() || is_slow(&e))
                    {
                        if e.is_refusal() {
                            tracing::error!("run {} cannot be written down: {e}", only.assignment.run_id);
                        }
                        let less = e.is_refusal() && !e.is_broken() && only.shorten(&e.to_string());
                        if !less {
                            // Its run may be locked, the schema may be under repair, or the end is refused for good. The others need not wait for that.
                            self.slow.extend(ended);
                            let now = Instant::now();
                            if now >= self.slow_again {
                                self.slow_again = now + SLOW_AGAIN;
                            }
                            return;
                        }
                    }
                    failures = failures.saturating_add(1);
                    let ceiling = Duration::from_millis(100 << failures.min(4));
                    tokio::time::sleep(full_jitter(ceiling, random())).await;
                }
            }
        }
    }

    /// Output first: once a state is final, the log is complete within the caps.
    /// None is an end that has to wait until claims are open.
    async fn try_settle(&mut self, ended: &mut [Ended]) -> Result<Vec<Option<Settled>>, StoreError> {
        refused::decide(&self.db, ended).await?;
        for e in ended.iter().filter(|e| e.result.is_some()) {
            self.follow(Followed::new(&e.assignment, false)).await;
        }
        let waiting = self.checkpoints.take();
        if let Err(e) = self.records.ship(&self.db).await {
            self.checkpoints.give_back(waiting);
            return Err(e);
        }
        // Whoever claims the next attempt finds the last checkpoint of this one.
        self.checkpoints.store(&self.db, waiting).await?;
        let ids: Vec<AttemptId> = ended.iter().map(|e| e.assignment.id()).collect();
        for part in ids.chunks(SHIP_SET) {
            match self.ship(part, true).await {
                // Of a claim that a failover lost: another node's attempt has its number. Its end is fenced off below.
                Err(StoreError::Refused(why)) if ended.len() == 1 => {
                    tracing::warn!("output of run {} is left out: {why}", ended[0].assignment.run_id);
                }
                shipped => shipped?,
            }
        }
        let dropped = |e: &Ended| {
            let output = e.result.as_ref().map(|result| &result.output);
            output.map_or(0, |output| {
                let shipper = self.shippers.get(&e.assignment.id());
                shipper.map_or(output.dropped_bytes, |s| s.dropped(output))
            })
        };
        let finish: Vec<Finish> = ended.iter().filter_map(|e| finish_row(e, dropped(e))).collect();
        let retry: Vec<Retry> = ended.iter().filter_map(|e| retry_row(e, dropped(e))).collect();
        let lose: Vec<Lose> = ended.iter().filter_map(lose_row).collect();
        let mut results = HashMap::new();
        results.extend(protocol::finish(&self.db, &finish).await?);
        results.extend(protocol::retry(&self.db, &retry).await?);
        results.extend(protocol::lose(&self.db, &lose).await?);
        results.extend(refused::give_back(&self.db, ended).await?);
        for e in ended.iter_mut() {
            let of = e.assignment.id().fenced(e.assignment.fence);
            if let Some(FinishResult::Ended(state)) = results.get(&of) {
                e.instead = Some(*state);
            }
        }
        Ok(ended
            .iter()
            .map(|e| {
                let id = e.assignment.id();
                Some(match (results.get(&id.fenced(e.assignment.fence)), &e.verdict) {
                    (Some(FinishResult::ClaimsClosed), _) => return None,
                    (Some(FinishResult::Fenced { now }), verdict) => {
                        self.events.emit(Event::Fenced {
                            op: op(verdict),
                            run_id: id.run_id,
                            attempt: id.attempt,
                            now: now.to_string(),
                        });
                        Settled::Fenced
                    }
                    (Some(FinishResult::Ended(_)), _) => Settled::Done,
                    (_, Verdict::Retry { delay, .. }) => Settled::Again(*delay),
                    (_, Verdict::Lost { .. } | Verdict::Refused { .. }) => Settled::Again(Duration::ZERO),
                    (_, Verdict::GivenBack { delay, .. }) => Settled::Again(*delay),
                    // The next round of a continuous job.
                    (_, Verdict::Final { again, .. }) => again.map_or(Settled::Done, Settled::Again),
                })
            })
            .collect())
    }

    async fn finish(&mut self, all: Vec<Ended>, settled: Vec<Option<Settled>>) {
        let (waiting, over): (Vec<_>, Vec<_>) =
            all.into_iter().zip(settled).partition(|(_, how)| how.is_none());
        self.closed.extend(waiting.into_iter().map(|(e, _)| e));
        let (ended, settled): (Vec<Ended>, Vec<Settled>) =
            over.into_iter().filter_map(|(e, how)| Some((e, how?))).unzip();
        if ended.is_empty() {
            return;
        }
        for (e, how) in ended.iter().zip(&settled) {
            self.shippers.remove(&e.assignment.id());
            self.records.forget(e.assignment.id());
            if *how != Settled::Fenced {
                e.tell(&self.events);
            }
        }
        let answer = Answer {
            ended,
            settled,
            run_log: self.run_log.clone(),
            session_handle: self.session_handle.clone(),
            state_dir: self.state_dir.clone(),
            events: self.events.clone(),
        };
        if self.run_log.is_on() {
            // Its last lines may take a moment, which what ends next need not wait for.
            tokio::spawn(answer.give());
        } else {
            answer.give().await;
        }
    }
}
