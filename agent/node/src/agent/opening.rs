//! How an agent comes by a session: adopted from a living warden, or opened.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use farmhand_core::lease::{BootInstant, EpochKey, Relation};
use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{self, Holder, NodeInfo, Opened};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::adoption::{self, RunningWarden};
use super::errors::{AgentError, retrying, setup};
use crate::context::Context;
use crate::discard::discard;
use crate::inbox::Input;
use crate::session::lease::{LEASE_GRACE, Lease};
use crate::session::{Io, Session, WardenLink, challenge_after, skips};
use farmhand_os::clock::{self, boot_now};
use farmhand_os::machine;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, AttemptReport, Serving};
use farmhand_warden_client::{Paths, privilege};

/// A session of this node: the one its warden serves, or a new one. After the `last` one of this agent always a new one.
pub(super) async fn begin(
    ctx: &Arc<Context>,
    last: Option<Serving>,
    (tx, inputs): (mpsc::Sender<Input>, mpsc::Receiver<Input>),
) -> Result<Session, AgentError> {
    let adoptable = last.is_none();
    let mut found = adoption::warden(ctx, last).await?;
    let mut late = None;
    while adoptable && let Some(living) = found.take() {
        let serving = living.client.identity().serving;
        let sent = boot_now();
        let info = ctx.node_info(serving.incarnation);
        let goes_on = retrying(ctx, "readopt", || {
            protocol::readopt(&ctx.db, serving.session, &info, false)
        })
        .await?;
        if goes_on && boot_now() < ctx.timing.holder_deadline(sent) {
            if let Some(adopted) = adoption::listed(ctx, &living).await? {
                return adopt(ctx, sent, living, adopted, (tx, inputs));
            }
            // It died or stopped meanwhile. Once it is dead, its processes are ended first, and its attempts are known by
            // their directories.
            drop(living);
            found = adoption::warden(ctx, last).await?;
            continue;
        }
        late = goes_on.then_some(serving);
        found = Some(living);
        break;
    }
    let empty = adoption::end(ctx, found).await?;
    if let Some(serving) = late.filter(|_| empty) {
        // Confirmed too late to be used. If it holds nothing, it is closed, so that no node waits for its end.
        let me = of(ctx, serving);
        retrying(ctx, "close", || protocol::close_if(&ctx.db, &me, &[], |_| false)).await?;
    }
    if adoptable {
        purge(ctx);
    }
    let (me, sent) = open(ctx).await?;
    ctx.events.emit(Event::SessionOpened { session: me.session });
    let io = Io::new(ctx.clone(), me.clone(), tx);
    let mut warden = WardenLink::new(io.clone());
    let started = warden.start_now(deadlines(ctx, sent)).await;
    let started = started.map_err(|e| setup("starting the warden", e));
    if let Err(e) = started.and_then(|()| unbound(ctx)) {
        retrying(ctx, "close", || protocol::close(&ctx.db, &me)).await?;
        return Err(e);
    }
    spawn_boot(ctx, &me);
    Ok(Session::new(io, sent, warden, (Vec::new(), None), inputs))
}

/// Also when adopting: the agent before may have been killed before it came to this. Each boot is fired once.
fn spawn_boot(ctx: &Arc<Context>, me: &LeaseIdentity) {
    let (ctx, me) = (ctx.clone(), me.clone());
    tokio::spawn(async move {
        if let Err(e) = fire_boot(&ctx, &me).await {
            tracing::error!("@reboot jobs were not fired: {e}");
        }
    });
}

/// The warden is ours now, and so is the lease. Earlier, an agent without rights could still be the node's.
fn unbound(ctx: &Context) -> Result<(), AgentError> {
    let dir = &ctx.config.state_dir;
    privilege::without(dir).map_err(|e| setup(format!("state directory {}", dir.display()), e))
}

/// Removes the directories of attempts that no warden has any more: an agent that was killed left them.
fn purge(ctx: &Arc<Context>) {
    for id in left_behind(ctx, &[]) {
        let ctx = ctx.clone();
        // The start does not wait for it.
        tokio::spawn(async move { discard(&ctx.config.state_dir, id, &ctx.events).await });
    }
}

/// What a dead warden had begun: each attempt has its directory before it has a process. That a warden lives says
/// nothing: it may be a later one. What was acknowledged and not removed yet is among them, too; the database does not
/// show it as held, so it is removed with the first renewal.
fn left_behind(ctx: &Context, living: &[AttemptReport]) -> HashSet<AttemptId> {
    let begun = Paths::new(&ctx.config.state_dir).attempts_on_disk();
    let lives = |id: &AttemptId| living.iter().any(|report| report.id == *id);
    let begun = begun.unwrap_or_default().into_iter();
    begun.filter(|id| !lives(id)).collect()
}

async fn fire_boot(ctx: &Context, me: &LeaseIdentity) -> Result<(), AgentError> {
    let boot_id = match machine::boot_id() {
        Ok(id) => id,
        Err(error) => {
            tracing::warn!(
                "cannot read {}, so @reboot fires nothing here: {error}",
                machine::BOOT_ID
            );
            return Ok(());
        }
    };
    let booted = loop {
        match retrying(ctx, "fire_boot", || protocol::fire_boot(&ctx.db, me, &boot_id)).await? {
            Some(booted) => break booted,
            // The session opens claims, or another node does.
            None => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    };
    for (job_id, error) in booted.unusable {
        ctx.events.emit(Event::BadDefinition { job_id, error });
    }
    skips(&booted.fired).for_each(|event| ctx.events.emit(event));
    if !booted.run_ids.is_empty() {
        ctx.events.emit(Event::Booted {
            boot_id,
            runs: booted.run_ids.len(),
        });
    }
    Ok(())
}

fn of(ctx: &Context, serving: Serving) -> LeaseIdentity {
    LeaseIdentity {
        address: ctx.config.address.clone(),
        session: serving.session,
        incarnation: serving.incarnation,
    }
}

fn adopt(
    ctx: &Arc<Context>,
    sent: BootInstant,
    found: RunningWarden,
    adopted: Vec<AttemptReport>,
    (tx, inputs): (mpsc::Sender<Input>, mpsc::Receiver<Input>),
) -> Result<Session, AgentError> {
    let identity = found.client.identity();
    let me = of(ctx, identity.serving);
    // It moves with the first renewal, which shows whether what runs there is still held.
    let standing = (BootInstant(identity.deadline_ns), BootInstant(identity.soft_ns));
    let io = Io::new(ctx.clone(), me.clone(), tx);
    let mut warden = WardenLink::new(io.clone());
    warden.insert(found.client, found.notices, standing);
    let left = left_behind(ctx, &adopted);
    unbound(ctx)?;
    ctx.events.emit(Event::SessionAdopted {
        session: me.session,
        attempts: adopted.len(),
    });
    spawn_boot(ctx, &me);
    Ok(Session::new(io, sent, warden, (adopted, Some(left)), inputs))
}

/// What keeps this agent from a session: the holder of its address, and an epoch in which claims are closed. Both are watched side by
/// side, each from when it was first seen on one and the same server.
#[derive(Debug, Default)]
struct Watched {
    holder: Option<(Holder, BootInstant)>,
    renewals: u32,
    epoch: Option<(EpochKey, BootInstant)>,
}

impl Watched {
    /// When the session of this holder may be expired; None once it was renewed twice, since its agent lives.
    fn holder_ends(&mut self, holder: &Holder, now: BootInstant) -> Option<BootInstant> {
        let since = match &self.holder {
            Some((before, since)) if before == holder => *since,
            Some((before, _))
                if (before.session, before.incarnation) == (holder.session, holder.incarnation) =>
            {
                self.renewals += u32::from(before.server == holder.server);
                now
            }
            _ => {
                tracing::warn!(
                    "session {} is open; waiting to see whether its agent lives",
                    holder.session
                );
                now
            }
        };
        let ends = since + challenge_after(holder.ttl_ms);
        self.holder = Some((holder.clone(), since));
        (self.renewals < 2).then_some(ends)
    }

    /// Since when this epoch is watched; None when it was not until now.
    fn epoch_since(&mut self, shown: EpochKey, now: BootInstant) -> Option<BootInstant> {
        let since = (self.epoch.take()).and_then(|(before, since)| (before == shown).then_some(since));
        self.epoch = Some((shown, since.unwrap_or(now)));
        since
    }
}

/// Opens a new session, expiring a dead one of the same address by the challenger's rule.
async fn open(ctx: &Context) -> Result<(LeaseIdentity, BootInstant), AgentError> {
    let incarnation = Uuid::new_v4();
    let info = ctx.node_info(incarnation);
    let mut watched = Watched::default();
    loop {
        let sent = boot_now();
        let opened = retrying(ctx, "open", || protocol::open(&ctx.db, &info)).await?;
        let now = boot_now();
        match opened {
            Opened::Session(session) => {
                let me = LeaseIdentity {
                    address: info.address.clone(),
                    session,
                    incarnation,
                };
                if now < ctx.timing.soft_deadline(sent, ctx.timing.kill_allowance()) {
                    return Ok((me, sent));
                }
                // Confirmed too late to be used.
                retrying(ctx, "close", || protocol::close(&ctx.db, &me)).await?;
            }
            Opened::Taken(holder) => {
                let ends = watched.holder_ends(&holder, now);
                let ends = ends.ok_or_else(|| taken(&info, &holder))?;
                if now < ends {
                    clock::sleep_until(ends.min(now + Duration::from_millis(500))).await;
                } else if !clock::slewed_beyond(clock::SLEW_LIMIT) {
                    let (address, of, renewals) = (&info.address, holder.incarnation, holder.renewals);
                    retrying(ctx, "expire", || {
                        protocol::expire(&ctx.db, address, holder.session, of, renewals)
                    })
                    .await?;
                } else {
                    clock::sleep_until(now + Duration::from_secs(1)).await;
                }
            }
            Opened::Closed(holder) => {
                if let Some(holder) = holder
                    && watched.holder_ends(&holder, now).is_none()
                {
                    return Err(taken(&info, &holder));
                }
                open_claims(ctx, &mut watched).await?;
            }
        }
    }
}

fn taken(info: &NodeInfo, holder: &Holder) -> AgentError {
    AgentError::AddressTaken {
        address: info.address.clone(),
        session: holder.session,
        holder: Relation::between(info.machine.as_deref(), holder.machine.as_deref()),
    }
}

/// One look at claims that are closed. This agent opens them itself when it remembers the database, or has watched it for W: the holders
/// of before have lapsed by then. Returns when it is time for another look.
async fn open_claims(ctx: &Context, watched: &mut Watched) -> Result<(), AgentError> {
    let shown = retrying(ctx, "database", || protocol::database(&ctx.db)).await?;
    let now = boot_now();
    if shown.open {
        return Ok(());
    }
    let memory = ctx.memory.latest();
    let key = shown.key();
    let since = watched.epoch_since(key.clone(), now);
    if since.is_none() {
        if let Some(memory) = &memory {
            if retrying(ctx, "vouch", || protocol::vouch(&ctx.db, memory)).await? {
                return Ok(());
            }
            retrying(ctx, "remind", || protocol::remind(&ctx.db, memory)).await?;
        }
        ctx.events.emit(Event::DatabaseUnknown { epoch: shown.epoch });
    }
    let of_this_farm = memory.as_ref().filter(|m| m.farm_id == shown.farm_id);
    let remembered = of_this_farm.map_or(0, |m| m.longest_lease_ms);
    let wait = challenge_after(shown.longest_lease_ms.max(remembered)).max(ctx.timing.challenge_after());
    let ends = since.unwrap_or(now) + wait;
    if now < ends || clock::slewed_beyond(clock::SLEW_LIMIT) {
        clock::sleep_until(now + Duration::from_millis(500)).await;
        return Ok(());
    }
    let address = &ctx.config.address;
    let opened = retrying(ctx, "open_epoch", || {
        protocol::open_epoch(&ctx.db, &key, address, memory.as_ref())
    })
    .await?;
    if let Some(new) = opened {
        ctx.events.emit(Event::from(new));
    }
    Ok(())
}

/// Kernel timer and SIGTERM time of the warden, for a lease confirmed at `sent`.
fn deadlines(ctx: &Context, sent: BootInstant) -> (BootInstant, BootInstant) {
    Lease::new(ctx.timing, LEASE_GRACE, sent).deadlines()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant(seconds * 1_000_000_000)
    }

    fn key(server: &str) -> EpochKey {
        EpochKey {
            id: Uuid::nil(),
            server: server.to_owned(),
        }
    }

    fn holder(server: &str, renewals: i64) -> Holder {
        Holder {
            session: 1,
            incarnation: Uuid::nil(),
            renewals,
            ttl_ms: 120_000,
            machine: None,
            server: server.to_owned(),
        }
    }

    #[test]
    fn holder_and_epoch_are_watched_side_by_side_until_the_later_of_both() {
        let wait = challenge_after(120_000);
        let mut watched = Watched::default();
        assert_eq!(watched.holder_ends(&holder("a", 7), at(10)), Some(at(10) + wait));
        assert_eq!(watched.epoch_since(key("a"), at(11)), None);
        assert_eq!(watched.epoch_since(key("a"), at(60)), Some(at(11)));
        // Claims are opened, and the holder is not watched anew.
        assert_eq!(watched.holder_ends(&holder("a", 7), at(133)), Some(at(10) + wait));
    }

    #[test]
    fn another_server_is_watched_anew_and_is_no_renewal() {
        let wait = challenge_after(120_000);
        let mut watched = Watched::default();
        for (n, server) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let now = at(10 * n as u64);
            assert_eq!(watched.holder_ends(&holder(server, 7), now), Some(now + wait));
            assert_eq!(watched.epoch_since(key(server), now), None);
        }
    }

    #[test]
    fn a_holder_that_renews_twice_lives() {
        let wait = challenge_after(120_000);
        let mut watched = Watched::default();
        assert_eq!(watched.holder_ends(&holder("a", 7), at(1)), Some(at(1) + wait));
        assert_eq!(watched.holder_ends(&holder("a", 8), at(2)), Some(at(2) + wait));
        assert_eq!(watched.holder_ends(&holder("a", 9), at(3)), None);
    }
}
