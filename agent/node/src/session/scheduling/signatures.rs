//! What follows from this node's keys beside the starts themselves: when their list changes, what was refused because of
//! it may be tried again; and of definitions that are seen here, the warden keeps the serials, so that an older one is
//! refused although nothing of the newer one was executed here.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_os::clock::boot_now;
use farmhand_store::Db;
use farmhand_store::protocol::JobRow;
use farmhand_store::signatures::{self, Signed};
use farmhand_warden_client::WardenClient;

use crate::inbox::Input;
use crate::session::io::Io;

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
pub(crate) struct SignatureSync {
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

impl SignatureSync {
    pub(crate) fn refused(&mut self) {
        self.refused_at = Some(boot_now());
    }

    /// Whether revisions that were refused here may still be left to other nodes.
    pub(super) fn refused_lately(&self) -> bool {
        (self.refused_at).is_some_and(|at| boot_now().saturating_since(at) < LEFT_TO_OTHERS)
    }

    /// With each poll.
    pub(super) fn forget_refusals_if_changed(&mut self, io: &Io) {
        self.later = false;
        let now = io.ctx.config.trusted_keys.as_deref().and_then(version);
        if self.asked_with.replace(now) == Some(now) {
            return;
        }
        let (ctx, me) = (io.ctx.clone(), io.me.clone());
        io.spawn(
            async move { Input::RefusalsForgotten(signatures::forget_refusals(&ctx.db, &me.address).await) },
        );
    }

    /// With the next poll: the refusals could not be forgotten.
    pub(super) fn ask_again(&mut self) {
        self.asked_with = None;
    }

    pub(super) fn learn(&mut self, io: &Io, row: &JobRow) {
        if io.ctx.config.trusted_keys.is_none() {
            return;
        }
        if row.deleted {
            self.seen.remove(&row.job_id);
        } else if self.seen.insert(row.job_id.clone(), row.rev) != Some(row.rev) {
            self.untold.insert(row.job_id.clone(), row.rev);
        }
    }

    /// One set at a time.
    pub(crate) fn tell(&mut self, io: &Io, warden: Option<WardenClient>) {
        if self.telling || self.later || self.untold.is_empty() || io.ctx.outage.lasts() {
            return;
        }
        let (Some(keys), Some(warden)) = (io.ctx.config.trusted_keys.clone(), warden) else {
            return;
        };
        let next = std::iter::from_fn(|| self.untold.pop_first());
        let set: Vec<Revision> = next.take(READ_AT_ONCE).collect();
        self.telling = true;
        let ctx = io.ctx.clone();
        io.spawn(async move {
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
    pub(crate) fn answered(&mut self, left: Vec<Revision>) {
        self.telling = false;
        self.later = !left.is_empty();
        for (job_id, rev) in left {
            self.untold.entry(job_id).or_insert(rev);
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
