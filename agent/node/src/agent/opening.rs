//! How an agent comes by a session: adopted from a living warden, or opened.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use farmhand_core::lease::{BootInstant, EpochKey, Relation};
use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{self, Opened};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::found::{self, Living};
use super::{AgentError, retrying, setup};
use crate::context::Context;
use crate::discard::discard;
use crate::failure_detector::challenge_after;
use crate::inbox::Input;
use crate::lease::Lease;
use crate::session::attempts::skips;
use crate::session::{LEASE_GRACE, Session};
use crate::warden_link::WardenLink;
use farmhand_os::clock::{self, boot_now};
use farmhand_os::machine;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, AttemptReport, Serving};
use farmhand_warden_client::{Paths, privilege};

/// A session of this node: the one its warden serves, or a new one. After the `last` one of this agent always a new one.
pub(super) async fn begin(
    ctx: &Arc<Context>,
    last: Option<Serving>,
    channel: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
) -> Result<Session, AgentError> {
    let adoptable = last.is_none();
    let mut found = found::warden(ctx, last).await?;
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
            if let Some(adopted) = found::listed(ctx, &living).await? {
                return adopt(ctx, sent, living, adopted, channel);
            }
            // It died or stopped meanwhile. Once it is dead, its processes are ended first, and its attempts are known by
            // their directories.
            drop(living);
            found = found::warden(ctx, last).await?;
            continue;
        }
        late = goes_on.then_some(serving);
        found = Some(living);
        break;
    }
    let empty = found::end(ctx, found).await?;
    if let Some(serving) = late.filter(|_| empty) {
        // Confirmed too late to be used. If it holds nothing, it is closed, so that no node waits for its end.
        let me = of(ctx, serving);
        retrying(ctx, "close", || protocol::close_if(&ctx.db, &me, |_| false)).await?;
    }
    if adoptable {
        purge(ctx);
    }
    let (me, sent) = open(ctx).await?;
    ctx.events.emit(Event::SessionOpened { session: me.session });
    let mut warden = new_link(ctx, &me, channel.0.clone());
    let started = warden.start_now(deadlines(ctx, sent)).await;
    let started = started.map_err(|e| setup("starting the warden", e));
    if let Err(e) = started.and_then(|()| unbound(ctx)) {
        retrying(ctx, "close", || protocol::close(&ctx.db, &me)).await?;
        return Err(e);
    }
    spawn_boot(ctx, &me);
    Ok(Session::new(ctx.clone(), me, sent, warden, Vec::new(), channel))
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
fn purge(ctx: &Context) {
    for id in left_behind(ctx, &[]) {
        let (paths, events) = (Paths::new(&ctx.config.state_dir), ctx.events.clone());
        // The start does not wait for it.
        tokio::spawn(async move { discard(paths, id, &events).await });
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

/// What this machine's boot fires.
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
    found: Living,
    adopted: Vec<AttemptReport>,
    channel: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
) -> Result<Session, AgentError> {
    let identity = found.client.identity();
    let me = of(ctx, identity.serving);
    // It moves with the first renewal, which shows whether what runs there is still held.
    let standing = (BootInstant(identity.deadline_ns), BootInstant(identity.soft_ns));
    let mut warden = new_link(ctx, &me, channel.0.clone());
    warden.insert(found.client, found.notices, standing);
    let left = left_behind(ctx, &adopted);
    unbound(ctx)?;
    ctx.events.emit(Event::SessionAdopted {
        session: me.session,
        attempts: adopted.len(),
    });
    spawn_boot(ctx, &me);
    let session = Session::new(ctx.clone(), me, sent, warden, adopted, channel);
    Ok(session.with_left_behind(left))
}

/// Opens a new session, expiring a dead one of the same address by the challenger's rule.
async fn open(ctx: &Context) -> Result<(LeaseIdentity, BootInstant), AgentError> {
    let incarnation = Uuid::new_v4();
    let info = ctx.node_info(incarnation);
    let mut watched: Option<(i64, Uuid, i64, BootInstant)> = None;
    let mut seen_renewals = 0;
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
            Opened::Taken {
                session,
                incarnation,
                renewals,
                ttl_ms,
                machine,
            } => {
                let since = match watched {
                    Some((s, l, b, since)) if (s, l, b) == (session, incarnation, renewals) => since,
                    Some((s, l, ..)) if (s, l) == (session, incarnation) => {
                        seen_renewals += 1;
                        if seen_renewals >= 2 {
                            return Err(AgentError::AddressTaken {
                                address: info.address.clone(),
                                session,
                                holder: Relation::between(info.machine.as_deref(), machine.as_deref()),
                            });
                        }
                        now
                    }
                    _ => {
                        tracing::warn!(
                            "session {session} of {} is open; waiting to see whether its agent lives",
                            info.address
                        );
                        now
                    }
                };
                watched = Some((session, incarnation, renewals, since));
                let ripe = since + challenge_after(ttl_ms);
                if now < ripe {
                    clock::sleep_until(ripe.min(now + Duration::from_millis(500))).await;
                } else if !clock::slewed_beyond(clock::SLEW_LIMIT) {
                    retrying(ctx, "expire", || {
                        protocol::expire(&ctx.db, &info.address, session, incarnation, renewals)
                    })
                    .await?;
                } else {
                    clock::sleep_until(now + Duration::from_secs(1)).await;
                }
            }
            Opened::Closed => wait_for_claims(ctx).await?,
        }
    }
}

/// Waits until claims are open. This agent opens them itself when it remembers the database, or has watched it for W: the
/// holders of before have lapsed by then.
async fn wait_for_claims(ctx: &Context) -> Result<(), AgentError> {
    let mut watched: Option<(EpochKey, BootInstant)> = None;
    loop {
        let shown = retrying(ctx, "database", || protocol::database(&ctx.db)).await?;
        let now = boot_now();
        if shown.open {
            return Ok(());
        }
        let memory = ctx.memory.latest();
        let key = shown.key();
        let since = match watched {
            Some((before, since)) if before == key => since,
            _ => {
                if let Some(memory) = &memory {
                    if retrying(ctx, "vouch", || protocol::vouch(&ctx.db, memory)).await? {
                        return Ok(());
                    }
                    retrying(ctx, "remind", || protocol::remind(&ctx.db, memory)).await?;
                }
                ctx.events.emit(Event::DatabaseUnknown { epoch: shown.epoch });
                now
            }
        };
        let of_this_farm = memory.as_ref().filter(|m| m.farm_id == shown.farm_id);
        let remembered = of_this_farm.map_or(0, |m| m.longest_lease_ms);
        let wait = challenge_after(shown.longest_lease_ms.max(remembered)).max(ctx.timing.challenge_after());
        if now >= since + wait && !clock::slewed_beyond(clock::SLEW_LIMIT) {
            let address = &ctx.config.address;
            let opened = retrying(ctx, "open_epoch", || {
                protocol::open_epoch(&ctx.db, &key, address, memory.as_ref())
            })
            .await?;
            if let Some(new) = opened {
                ctx.events.emit(Event::EpochOpened(new));
            }
        }
        watched = Some((key, since));
        clock::sleep_until(now + Duration::from_millis(500)).await;
    }
}

fn new_link(ctx: &Context, me: &LeaseIdentity, tx: mpsc::Sender<Input>) -> WardenLink {
    // Ended attempts stay with the warden until they are written down.
    let max_attempts = ctx.tunable().slots.saturating_mul(4).saturating_add(1_024);
    let (dir, events) = (ctx.config.state_dir.clone(), ctx.events.clone());
    WardenLink::new(dir, me, max_attempts, events, tx)
}

/// Kernel timer and SIGTERM time of the warden, for a lease confirmed at `sent`.
fn deadlines(ctx: &Context, sent: BootInstant) -> (BootInstant, BootInstant) {
    Lease::new(ctx.timing, LEASE_GRACE, sent).deadlines()
}
