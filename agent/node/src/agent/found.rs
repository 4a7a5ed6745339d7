//! The wardens that an agent finds when it starts, until it has adopted or ended them.

use std::time::Duration;

use super::{AgentError, setup};
use crate::context::Context;
use crate::wardens::{self, SUPERSEDED_EVERY};
use farmhand_warden_client::wire::{AttemptReport, Kind, Refusal, Serving};
use farmhand_warden_client::{Gone, Notices, Paths, WardenClient, WardenError, nobody_lives};

/// A sweep gives up what the kernel cannot end after ten seconds.
const SWEPT_WITHIN: Duration = Duration::from_secs(12);

/// How long a warden that is gone has to be seen dead.
const SEEN_DEAD_WITHIN: Duration = Duration::from_secs(1);

pub(super) type Found = (Kind, WardenClient, Notices);

/// Connects to every warden of the state directory, which cuts an older agent off. With the `last` lease of this agent, only to those that
/// serve it: one of another lease is a newer agent's.
pub(crate) async fn wardens(ctx: &Context, last: Option<Serving>) -> Result<Vec<Found>, AgentError> {
    let dir = &ctx.config.state_dir;
    let mut found = Vec::new();
    for kind in Paths::kinds(dir).map_err(|e| setup("state directory", e))? {
        loop {
            match WardenClient::connect_serving(dir, kind, last, &ctx.config.address).await {
                Ok(Some((client, notices))) => found.push((kind, client, notices)),
                // Before the session is opened, which may have to wait for the end of the last one.
                Ok(None) => sweep(&Paths::new(dir, kind)).await,
                // Stopped, or its reaper is still ending processes: its kernel timer is running out.
                Err(e @ (WardenError::NoAnswer { .. } | WardenError::Busy(_) | WardenError::Gone)) => {
                    tracing::warn!("waiting for the {} warden: {e}", kind.name());
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
                Err(WardenError::Refused(Refusal::WrongLife { .. })) => return Err(superseded(ctx)),
                Err(WardenError::Refused(Refusal::WrongAddress { address, serving })) => {
                    return Err(AgentError::StateDirTaken {
                        dir: dir.clone(),
                        address,
                        session: serving.session,
                    });
                }
                Err(e) => return Err(of_the(kind, e)),
            }
            break;
        }
    }
    Ok(found)
}

fn of_the(kind: Kind, error: impl std::fmt::Display) -> AgentError {
    setup(format!("the {} warden", kind.name()), error)
}

/// Ends what a warden left behind that was killed together with its reaper.
async fn sweep(paths: &Paths) {
    let kind = paths.kind().name();
    match tokio::time::timeout(SWEPT_WITHIN, nobody_lives(paths)).await {
        Ok(Ok(Gone::Empty { swept: 0 })) => {}
        Ok(Ok(gone)) => tracing::warn!("the {kind} warden and its reaper were killed together: {gone:?}"),
        Ok(Err(e)) => tracing::error!("looking for what the {kind} warden left: {e}"),
        Err(_) => tracing::error!("what the {kind} warden left could not be ended within {SWEPT_WITHIN:?}"),
    }
}

/// The lease that all of them serve.
pub(crate) fn common_serving(found: &[Found]) -> Option<Serving> {
    let serving = found.first()?.1.identity().serving;
    found
        .iter()
        .all(|(_, client, _)| client.identity().serving == serving)
        .then_some(serving)
}

/// What the wardens run; None when one of them has died, or does not answer any more.
pub(super) async fn listed(
    ctx: &Context,
    found: &[Found],
) -> Result<Option<Vec<(Kind, AttemptReport)>>, AgentError> {
    let (mut attempts, mut all) = (Vec::new(), true);
    for (kind, client, _) in found {
        match client.list().await {
            Ok(listing) => attempts.extend(listing.attempts.into_iter().map(|a| (*kind, a))),
            Err(WardenError::Gone) => {
                is_dead(ctx, client).await?;
                all = false;
            }
            // Stopped since its greeting: whoever looks for it again waits for it.
            Err(e @ WardenError::NoAnswer { .. }) => {
                tracing::warn!("the {} warden: {e}", kind.name());
                all = false;
            }
            Err(e) => return Err(of_the(*kind, e)),
        }
    }
    Ok(all.then_some(attempts))
}

/// Ends the wardens and waits for the proof. Whether nothing of them lives; an error when one of them obeys a newer agent.
pub(super) async fn end(ctx: &Context, found: Vec<Found>) -> Result<bool, AgentError> {
    let mut empty = true;
    for (kind, client, _) in found {
        let told = client.shutdown(Duration::ZERO).await;
        if let Err(WardenError::Gone) = told {
            is_dead(ctx, &client).await?;
        }
        let pid = client.identity().warden_pid;
        let gone = tokio::select! {
            gone = wardens::ended(client, told.is_ok().then_some(Duration::ZERO)) => gone,
            // Ours is dead, and the proof would wait for one that is not ours.
            () = another_lives(ctx, kind, pid) => return Err(superseded(ctx)),
        };
        empty &= matches!(gone.map_err(|e| of_the(kind, e))?, Gone::Empty { .. });
    }
    Ok(empty)
}

/// Of a warden that has ended the connection. One that lives has ended it for a newer agent, which it obeys.
async fn is_dead(ctx: &Context, client: &WardenClient) -> Result<(), AgentError> {
    let dead = tokio::time::timeout(SEEN_DEAD_WITHIN, client.proof().warden_dead()).await;
    dead.map_err(|_| superseded(ctx))
}

/// Returns when another warden lives in the place of this one: a newer agent has started it.
async fn another_lives(ctx: &Context, kind: Kind, than: i32) {
    loop {
        tokio::time::sleep(SUPERSEDED_EVERY).await;
        if let Ok(Some(found)) = WardenClient::identify(&ctx.config.state_dir, kind).await
            && found.warden_pid != than
        {
            return;
        }
    }
}

fn superseded(ctx: &Context) -> AgentError {
    AgentError::Superseded {
        dir: ctx.config.state_dir.clone(),
    }
}
