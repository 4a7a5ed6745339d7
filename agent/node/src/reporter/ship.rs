//! Output of attempts on its way into the database.

use std::collections::hash_map::Entry;

use farmhand_store::StoreError;
use farmhand_store::logs::{LogChunk, append_log, log_end, trim_log};

use super::Reporter;
use super::report::Followed;
use super::sets::SHIP_SET;
use crate::runlog::About;
use crate::ship_window::Shipper;
use farmhand_warden_client::Paths;
use farmhand_warden_client::wire::AttemptId;

/// Bytes of output in one statement: a slow link has to carry them within the time of a statement. A chunk is smaller.
const STATEMENT_BYTES: usize = 1 << 20;

impl Reporter {
    pub(super) async fn follow(&mut self, followed: Followed) {
        let id = followed.id;
        if let Some((held, what)) = followed.records {
            self.records.follow(id, held, &self.state_dir, what);
        }
        let Entry::Vacant(new) = self.shippers.entry(id) else {
            return;
        };
        let dir = Paths::new(&self.state_dir).attempt_dir(id);
        new.insert(Shipper::new(id, dir.clone(), followed.keep, followed.fresh));
        let about = About {
            id,
            job_id: followed.job_id,
            traceparent: followed.traceparent,
            parent_run: followed.parent_run,
            dir,
        };
        self.run_log.follow(about).await;
    }

    pub(super) async fn ship_live(&mut self) {
        let ids: Vec<AttemptId> = self.shippers.keys().copied().collect();
        for part in ids.chunks(SHIP_SET) {
            let Err(e) = self.ship(part, false).await else {
                continue;
            };
            tracing::debug!("output waits: {e}");
            if !e.is_refusal() {
                return;
            }
            // One that is refused, as that of a claim which a failover lost, keeps back none of the others.
            for id in part {
                match self.ship(&[*id], false).await {
                    Err(e) if !e.is_refusal() => return,
                    _ => {}
                }
            }
        }
    }

    /// Sends what is new of these attempts; with `all`, until there is nothing left.
    pub(super) async fn ship(&mut self, ids: &[AttemptId], all: bool) -> Result<(), StoreError> {
        loop {
            let mut more = false;
            let mut chunks = Vec::new();
            for id in ids {
                let Some(shipper) = self.shippers.get_mut(id) else {
                    continue;
                };
                if shipper.unplaced() {
                    let (end, stored) = log_end(&self.db, id.run_id, id.attempt).await?;
                    shipper.place(end, stored);
                }
                if let Err(e) = shipper.read() {
                    tracing::warn!("output of attempt {id} cannot be read: {e}");
                }
                let (pending, trim) = shipper.pending();
                chunks.extend_from_slice(pending);
                if let Some((from, to)) = trim {
                    trim_log(&self.db, id.run_id, id.attempt, from, to).await?;
                }
                more |= shipper.more();
            }
            for part in parts(&chunks) {
                append_log(&self.db, part).await?;
                let stored = |shipper: &mut Shipper| shipper.stored(part);
                ids.iter()
                    .for_each(|id| self.shippers.get_mut(id).map_or((), stored));
            }
            for id in ids {
                if let Some(shipper) = self.shippers.get_mut(id) {
                    shipper.sent();
                }
            }
            if !(all && more) {
                return Ok(());
            }
        }
    }

    /// Closes the files of attempts that get no end from this agent. They are removed, and take up the disk while they are open.
    pub(super) async fn forget(&mut self, ids: Vec<AttemptId>) {
        for id in &ids {
            self.starts.forget(*id);
            self.shippers.remove(id);
            self.records.forget(*id);
        }
        let run_log = self.run_log.clone();
        // Its last lines may take a moment, which what ends next need not wait for.
        tokio::spawn(async move { run_log.end(ids).await });
    }
}

/// What goes into one statement each.
fn parts(mut chunks: &[LogChunk]) -> impl Iterator<Item = &[LogChunk]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = chunks.iter().take_while(|chunk| {
            bytes += chunk.bytes.len();
            bytes <= STATEMENT_BYTES
        });
        let (part, rest) = chunks.split_at(fits.count().max(1).min(chunks.len()));
        chunks = rest;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use farmhand_store::LogStream;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_statement_carries_a_mebibyte_of_output_at_most() {
        let chunk = |seq: i64| LogChunk {
            run_id: 1,
            attempt: 1,
            seq,
            stream: LogStream::Stdout,
            at: Timestamp::UNIX_EPOCH,
            bytes: vec![0; 64 << 10],
        };
        let chunks: Vec<LogChunk> = (0..1_000).map(chunk).collect();
        let parts: Vec<&[LogChunk]> = parts(&chunks).collect();
        assert!(
            parts
                .iter()
                .all(|part| part.len() == 16 || part.len() == 1_000 % 16)
        );
        assert_eq!(parts.concat(), chunks);
    }

    #[test]
    fn a_chunk_that_is_too_large_goes_alone_and_nothing_makes_no_statement() {
        let chunk = LogChunk {
            run_id: 1,
            attempt: 1,
            seq: 0,
            stream: LogStream::Stdout,
            at: Timestamp::UNIX_EPOCH,
            bytes: vec![0; 2 << 20],
        };
        assert_eq!(parts(&[chunk.clone(), chunk]).count(), 2);
        assert_eq!(parts(&[]).count(), 0);
    }
}
