//! Listening to a warden until it is proven dead.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::inbox::{Input, WardenInput};
use farmhand_warden_client::{Notice, Notices, WardenClient};

/// For what a dead warden had said.
const READ_OUT_WITHIN: Duration = Duration::from_secs(2);

/// How often a proof of death that failed is tried again.
const PROOFS: usize = 5;

/// Forwards what a warden says; when its connection ends, waits for the proof of its death.
pub(crate) async fn listen(client: WardenClient, mut notices: Notices, tx: mpsc::Sender<Input>) {
    let proof = client.proof().clone();
    drop(client);
    let mut reaper_dead = std::pin::pin!(proof.reaper_dead());
    // What a warden said before it died is still read; one that hangs says nothing more, and never closes its connection.
    let mut rest: Option<tokio::time::Instant> = None;
    loop {
        let notice = tokio::select! {
            biased;
            notice = notices.recv() => notice,
            () = &mut reaper_dead, if rest.is_none() => {
                rest = Some(tokio::time::Instant::now() + READ_OUT_WITHIN);
                continue;
            }
            () = tokio::time::sleep_until(rest.unwrap_or_else(tokio::time::Instant::now)), if rest.is_some() => None,
        };
        let Some(notice) = notice else { break };
        match notice {
            Notice::Event(event) => {
                if tx.send(Input::Warden(WardenInput::Event(event))).await.is_err() {
                    return;
                }
            }
            Notice::Gone => break,
        }
    }
    if tx.send(Input::Warden(WardenInput::Disconnected)).await.is_err() {
        return;
    }
    let mut dead = proof.tree_gone().await;
    // What stays without proof stays held: a table of processes that could not be read just now is asked again.
    for _again in 0..PROOFS {
        let Err(e) = &dead else { break };
        tracing::warn!("looking for what the warden left: {e}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        dead = proof.tree_gone().await;
    }
    let _ = tx.send(Input::Warden(WardenInput::Dead(dead))).await;
}
