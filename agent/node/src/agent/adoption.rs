//! The warden that an agent finds when it starts, until it has adopted or ended it.

use std::time::Duration;

use super::errors::{AgentError, setup};
use crate::context::Context;
use crate::session::{self, SUPERSEDED_EVERY};
use farmhand_warden_client::wire::{AttemptReport, Refusal, Serving};
use farmhand_warden_client::{Gone, Notices, Paths, WardenClient, WardenError, nobody_lives};

/// A sweep gives up what the kernel cannot end after ten seconds.
const SWEPT_WITHIN: Duration = Duration::from_secs(12);

/// How long a warden that is gone has to be seen dead.
const SEEN_DEAD_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct RunningWarden {
    pub client: WardenClient,
    pub notices: Notices,
}

/// Connects to the warden of the state directory, which cuts an older agent off. With the `last` lease of this agent, only to one that
/// serves it: one of another lease is a newer agent's.
pub(super) async fn warden(
    ctx: &Context,
    last: Option<Serving>,
) -> Result<Option<RunningWarden>, AgentError> {
    let dir = &ctx.config.state_dir;
    loop {
        match WardenClient::connect(dir, last, &ctx.config.address).await {
            Ok(Some((client, notices))) => return Ok(Some(RunningWarden { client, notices })),
            // Before the session is opened, which may have to wait for the end of the last one.
            Ok(None) => {
                sweep(&Paths::new(dir)).await;
                return Ok(None);
            }
            // Stopped, or its reaper is still ending processes: its kernel timer is running out.
            Err(e @ (WardenError::NoAnswer { .. } | WardenError::Busy(_) | WardenError::Gone)) => {
                tracing::warn!("waiting for the warden: {e}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(WardenError::Refused(Refusal::WrongLife { .. })) => return Err(superseded(ctx)),
            Err(WardenError::Refused(Refusal::WrongAddress { address, serving })) => {
                return Err(AgentError::StateDirTaken {
                    dir: dir.clone(),
                    address,
                    session: serving.session,
                });
            }
            Err(e) => return Err(setup("the warden", e)),
        }
    }
}

/// Ends what a warden left behind that was killed together with its reaper.
async fn sweep(paths: &Paths) {
    match tokio::time::timeout(SWEPT_WITHIN, nobody_lives(paths)).await {
        Ok(Ok(Gone::Empty { swept: 0 })) => {}
        Ok(Ok(gone)) => tracing::warn!("the warden and its reaper were killed together: {gone:?}"),
        Ok(Err(e)) => tracing::error!("looking for what the warden left: {e}"),
        Err(_) => tracing::error!("what the warden left could not be ended within {SWEPT_WITHIN:?}"),
    }
}

/// What the warden runs; None when it has died, or does not answer any more.
pub(super) async fn listed(
    ctx: &Context,
    found: &RunningWarden,
) -> Result<Option<Vec<AttemptReport>>, AgentError> {
    match found.client.list().await {
        Ok(listing) => Ok(Some(listing.attempts)),
        Err(WardenError::Gone) => {
            is_dead(ctx, &found.client).await?;
            Ok(None)
        }
        // Stopped since its greeting: whoever looks for it again waits for it.
        Err(e @ WardenError::NoAnswer { .. }) => {
            tracing::warn!("the warden: {e}");
            Ok(None)
        }
        Err(e) => Err(setup("the warden", e)),
    }
}

/// Ends the warden and waits for the proof. Whether nothing of it lives; an error when it obeys a newer agent.
pub(super) async fn end(ctx: &Context, found: Option<RunningWarden>) -> Result<bool, AgentError> {
    let Some(RunningWarden { client, .. }) = found else {
        return Ok(true);
    };
    let told = client.shutdown(Duration::ZERO).await;
    if let Err(WardenError::Gone) = told {
        is_dead(ctx, &client).await?;
    }
    let pid = client.identity().warden_pid;
    let gone = tokio::select! {
        gone = session::ended(client, told.is_ok()) => gone,
        // Ours is dead, and the proof would wait for one that is not ours.
        () = another_lives(ctx, pid) => return Err(superseded(ctx)),
    };
    Ok(matches!(
        gone.map_err(|e| setup("the warden", e))?,
        Gone::Empty { .. }
    ))
}

/// Of a warden that has ended the connection. One that lives has ended it for a newer agent, which it obeys.
async fn is_dead(ctx: &Context, client: &WardenClient) -> Result<(), AgentError> {
    let dead = tokio::time::timeout(SEEN_DEAD_WITHIN, client.proof().warden_dead()).await;
    dead.map_err(|_| superseded(ctx))
}

/// Returns when another warden lives in the place of this one: a newer agent has started it.
async fn another_lives(ctx: &Context, than: i32) {
    loop {
        tokio::time::sleep(SUPERSEDED_EVERY).await;
        if let Ok(Some(found)) = WardenClient::identify(&ctx.config.state_dir).await
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
