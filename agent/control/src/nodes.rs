//! Nodes and their leases.

use farmhand_core::text::count_of;
use farmhand_store::acting::Acting;
use farmhand_store::event::EventKind;
use farmhand_store::events::{EventRow, record_events};
use farmhand_store::jobs::remove_node;
use farmhand_store::protocol::{Expired, Freed, force_expire};
use farmhand_store::reading::{self, NodeItem};
use farmhand_store::{Db, Severity};
use serde_json::json;

use crate::{Answer, Refusal};

/// The node of an address.
/// Errors: 3 when there is none.
pub async fn one(db: &Db, address: &str) -> Result<NodeItem, Refusal> {
    reading::node(db, address).await?.ok_or_else(|| no_node(address))
}

/// What is said of an address that no node has.
pub(crate) fn no_node(address: &str) -> Refusal {
    Refusal::not_found(format!("there is no node with the address {address}"))
        .next("`farmhand node ls` shows the addresses")
}

/// What is said of a name that no pool has.
pub(crate) fn no_pool(name: &str) -> Refusal {
    Refusal::not_found(format!("there is no pool {name}")).next(format!(
        "`farmhand pool ls` shows the pools; [pool.{name}] in a job file makes one"
    ))
}

/// The node of an address that holds a lease.
/// Errors: 3 when there is no such node, 4 when it holds none.
pub async fn leased(db: &Db, address: &str) -> Result<NodeItem, Refusal> {
    let node = one(db, address).await?;
    if node.open {
        return Ok(node);
    }
    Err(Refusal::refused(format!("{address} holds no lease"))
        .why(format!("its session {} has ended already", node.session)))
}

/// What releasing a lease by force may lead to.
pub fn release_danger(node: &NodeItem) -> String {
    format!(
        "Releasing the lease of {} (session {}, {} runs) by force lets other nodes start its runs while its own \
         processes may still run: they may run twice. Without force, a dead node's lease ends by itself.",
        node.address,
        node.session,
        node.in_use()
    )
}

/// Ends a node's session now and answers with the runs that it frees.
/// Errors: 4 when it has ended, or cannot be ended.
pub(crate) async fn release_lease(
    acting: &Acting,
    address: &str,
    session: i64,
    by: &str,
) -> Result<Vec<i64>, Refusal> {
    let freed = end_session(acting, address, session).await?;
    let runs: Vec<i64> = freed.iter().map(|f| f.run_id).collect();
    record(acting.db(), address, session, &runs, by).await?;
    Ok(runs)
}

/// Ends the session that was confirmed, and no later one.
async fn end_session(acting: &Acting, address: &str, session: i64) -> Result<Vec<Freed>, Refusal> {
    if let Expired::Done { freed } = force_expire(acting, address, session).await? {
        return Ok(freed);
    }
    let node = one(acting.db(), address).await?;
    Err(if node.open && node.session == session {
        Refusal::refused(format!("the lease of {address} could not be released"))
            .why("claims are closed")
            .next("`farmhand epoch` says why, and how to open them")
    } else {
        Refusal::refused(format!("session {session} of {address} has ended meanwhile"))
            .next("look again with `farmhand lease ls`")
    })
}

async fn record(db: &Db, address: &str, session: i64, runs: &[i64], by: &str) -> Result<(), Refusal> {
    let event = EventRow {
        kind: EventKind::LeaseReleased.to_string(),
        severity: Severity::Warning,
        job_id: None,
        run_id: None,
        attempt: None,
        address: Some(address.to_owned()),
        session: Some(session),
        fence: None,
        detail: json!({"by": by, "forced": true, "runs": runs}),
    };
    Ok(record_events(db, &[event]).await?)
}

/// Forgets a node that has left.
/// Errors: 3 when there is no such node, 4 when its session is open or it still holds runs.
pub(crate) async fn remove(
    acting: &Acting,
    address: &str,
    by: &str,
    commit: bool,
) -> Result<Answer, Refusal> {
    let db = acting.db();
    let node = one(db, address).await?;
    if !node.open && node.running == 0 && !commit {
        return Ok(format!("{address} is removed").into());
    }
    if commit && remove_node(acting, address, by).await? {
        return Ok(format!("{address} is removed").into());
    }
    let (why, next) = if node.open {
        let session = node.session;
        let why = format!("its session {session} is open: its agent runs, or its lease has not ended yet");
        (
            why,
            format!("stop its agent, then repeat `farmhand node rm {address}`"),
        )
    } else {
        let why = format!(
            "{} not free yet",
            count_of(node.running, "run of it is", "runs of it are")
        );
        (
            why,
            "repeat it when `farmhand lease ls` shows nothing of it".to_owned(),
        )
    };
    Err(Refusal::refused(format!("{address} cannot be removed"))
        .why(why)
        .next(next))
}
