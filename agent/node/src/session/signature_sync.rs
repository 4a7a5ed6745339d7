//! What follows from this node's keys beside the starts themselves: when their list changes, what was refused because of
//! it may be tried again; and of definitions that are seen here, the warden keeps the serials, so that an older one is
//! refused although nothing of the newer one was executed here.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::protocol::JobRow;
use farmhand_store::signatures::{self, Signed};
use farmhand_store::{Db, StoreError};

use super::{Input, Session};
use crate::outage::Unanswered;
use farmhand_os::clock::boot_now;
use farmhand_warden_client::WardenClient;

/// Definitions whose signatures are read at once; one has up to 4 MiB.
const READ_AT_ONCE: usize = 32;
/// Signed text in one message to the warden, unless one has more.
const TOLD_AT_ONCE: usize = 1 << 20;

/// As long as `claim` leaves a revision that was refused here to other nodes.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(600);

/// Which version of a file it is: inode, size, change.
type Version = Option<(u64, u64, i64, i64)>;
type Revision = (String, i64);

#[derive(Debug, Default)]
pub(super) struct SignatureSync {
    /// The list as it was when the refusals before were forgotten; unknown to a new session.
    asked_with: Option<Version>,
    /// The revision of each job that was seen last.
    seen: HashMap<String, i64>,
    /// What the warden has not been told yet: the newest revision of each.
    untold: BTreeMap<String, i64>,
    telling: bool,
    /// Until the next poll, because it failed.
    later: bool,
    /// The last time that a definition was refused here.
    refused_at: Option<BootInstant>,
}

impl Session {
    pub(super) fn note_refusal(&mut self) {
        self.signature_sync.refused_at = Some(boot_now());
    }

    /// Whether runs may be left to others here, who then have to be told of them.
    pub(super) fn leaves_runs_to_others(&self) -> bool {
        let at = self.signature_sync.refused_at;
        at.is_some_and(|at| boot_now().saturating_since(at) < LEFT_TO_OTHERS)
            || self.ctx.start_pause().why().is_some()
    }

    /// With each poll.
    pub(super) fn forget_refusals_if_changed(&mut self) {
        self.signature_sync.later = false;
        let now = self.ctx.config.trusted_keys.as_deref().and_then(version);
        if self.signature_sync.asked_with == Some(now) {
            return;
        }
        self.signature_sync.asked_with = Some(now);
        let (ctx, me) = (self.ctx.clone(), self.me.clone());
        self.spawn(async move {
            Input::RefusalsForgotten(signatures::forget_refusals(&ctx.db, &me.address).await)
        });
    }

    pub(super) fn on_refusals_forgotten(&mut self, result: Result<usize, StoreError>) {
        self.note_db("forget_refusals", Unanswered::Slow, &result);
        match result {
            Ok(0) => {}
            Ok(_) => self.scheduler.hint(),
            // The next poll tries again.
            Err(_) => self.signature_sync.asked_with = None,
        }
    }

    pub(super) fn definition_seen(&mut self, row: &JobRow) {
        if self.ctx.config.trusted_keys.is_none() {
            return;
        }
        if row.deleted {
            self.signature_sync.seen.remove(&row.job_id);
        } else if self.signature_sync.seen.insert(row.job_id.clone(), row.rev) != Some(row.rev) {
            self.signature_sync.untold.insert(row.job_id.clone(), row.rev);
        }
    }

    /// One set at a time.
    pub(super) fn tell_serials(&mut self) {
        let signature_sync = &mut self.signature_sync;
        if signature_sync.telling
            || signature_sync.later
            || signature_sync.untold.is_empty()
            || self.ctx.outage.lasts()
        {
            return;
        }
        let (Some(keys), Some(warden)) = (self.ctx.config.trusted_keys.clone(), self.warden.connection())
        else {
            return;
        };
        let next = std::iter::from_fn(|| signature_sync.untold.pop_first());
        let set: Vec<Revision> = next.take(READ_AT_ONCE).collect();
        signature_sync.telling = true;
        let ctx = self.ctx.clone();
        self.spawn(async move {
            match tell(&ctx.db, &warden, &keys, &set).await {
                Ok(()) => Input::SerialsTold(Vec::new()),
                Err(why) => {
                    tracing::warn!("serials of signed definitions are not noted yet: {why}");
                    Input::SerialsTold(set)
                }
            }
        });
    }

    /// `left`: what failed.
    pub(super) fn on_serials_told(&mut self, left: Vec<Revision>) {
        self.signature_sync.telling = false;
        self.signature_sync.later = !left.is_empty();
        for (job_id, rev) in left {
            self.signature_sync.untold.entry(job_id).or_insert(rev);
        }
    }
}

async fn tell(db: &Db, warden: &WardenClient, keys: &Path, set: &[Revision]) -> Result<(), String> {
    let signed = signatures::signatures(db, set).await.map_err(|e| e.to_string())?;
    let mut message: Vec<Signed> = Vec::new();
    let mut bytes = 0;
    for one in signed {
        if bytes + one.document.len() > TOLD_AT_ONCE && !message.is_empty() {
            let full = std::mem::take(&mut message);
            warden
                .note(keys.to_owned(), full)
                .await
                .map_err(|e| e.to_string())?;
            bytes = 0;
        }
        bytes += one.document.len();
        message.push(one);
    }
    if message.is_empty() {
        return Ok(());
    }
    warden
        .note(keys.to_owned(), message)
        .await
        .map_err(|e| e.to_string())
}

fn version(file: &Path) -> Version {
    let m = std::fs::metadata(file).ok()?;
    Some((m.ino(), m.size(), m.ctime(), m.ctime_nsec()))
}
