//! `farmhand node`: the servers of the farm.

use clap::{Args, Subcommand};
use farmhand_store::Db;
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::jobs::remove_node;
use farmhand_store::reading::{self, NodeItem, NodeState, every};
use serde_json::json;

use super::{DatabaseArgs, Exit, Failure, Outcome, act, completion, drain, out};
use farmhand_control::Action;
pub(super) use farmhand_control::nodes::one;

#[derive(Args, Debug)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum NodeCommand {
    /// All nodes
    #[command(alias = "list")]
    Ls,
    /// One node and what it runs
    Show {
        #[arg(add = completion::node_names())]
        address: String,
    },
    /// Let a node claim nothing more; what it runs goes on
    Cordon {
        #[arg(add = completion::node_names())]
        address: String,
    },
    /// As cordon, and let what it runs come to its end; with a deadline, what still runs then is ended and run again
    /// elsewhere
    Drain(drain::DrainArgs),
    /// Forget a node that is gone for good; runs that only it could have run end as skipped
    #[command(aliases = ["delete", "remove"])]
    Rm {
        #[arg(add = completion::node_names())]
        address: String,
    },
    /// Let a cordoned or draining node claim again
    Resume {
        #[arg(add = completion::node_names())]
        address: String,
    },
}

pub(super) async fn run(args: &NodeArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    match &args.command {
        NodeCommand::Ls => list(&db, as_json).await,
        NodeCommand::Show { address } => show(&db, address, as_json).await,
        NodeCommand::Cordon { address } => {
            let node = address.clone();
            act::run(&db, &Action::Cordon { node }, as_json).await
        }
        NodeCommand::Rm { address } => remove(&db, address, as_json).await,
        NodeCommand::Drain(args) => drain::run(&db, args, as_json).await,
        NodeCommand::Resume { address } => {
            let node = address.clone();
            act::run(&db, &Action::Uncordon { node }, as_json).await
        }
    }
}

async fn remove(db: &Db, address: &str, as_json: bool) -> Outcome {
    let deed = Deed {
        address: Some(address.to_owned()),
        ..Deed::of(
            &super::who(),
            "node_remove",
            format!("farmhand node rm {address}"),
        )
    };
    if !remove_node(&Acting::begin(db, deed), address, &super::who()).await? {
        let node = one(db, address).await?;
        let (why, next) = if node.open {
            let why = format!(
                "its session {} is open: its agent runs, or its lease has not ended yet",
                node.session
            );
            (
                why,
                format!("stop its agent, then repeat `farmhand node rm {address}`"),
            )
        } else {
            let why = format!(
                "{} not free yet",
                out::count_of(node.running, "run of it is", "runs of it are")
            );
            (
                why,
                "repeat it when `farmhand lease ls` shows nothing of it".to_owned(),
            )
        };
        let refused = Failure::refused(format!("{address} cannot be removed")).why(why);
        return Err(refused.next(next));
    }
    out::done(
        as_json,
        &json!({"removed": address}),
        &format!("{address} is removed"),
    )
}

async fn list(db: &Db, as_json: bool) -> Outcome {
    let nodes = every(|paging| async move { reading::nodes(db, None, &paging).await }).await?;
    if as_json {
        out::json(&nodes);
        return Ok(Exit::Ok);
    }
    let rows = nodes.items.iter().map(|node| {
        vec![
            node.address.clone(),
            node.state.to_string(),
            node.session.to_string(),
            node.running.to_string(),
            node.slots.to_string(),
            out::time(node.lease_until),
            labels(node),
            node.version.clone(),
        ]
    });
    out::table(
        "ADDRESS|STATE|SESSION|RUNNING|SLOTS|LEASE UNTIL|LABELS|VERSION",
        rows,
    );
    Ok(Exit::Ok)
}

async fn show(db: &Db, address: &str, as_json: bool) -> Outcome {
    let node = one(db, address).await?;
    if as_json {
        out::json(&node);
        return Ok(Exit::Ok);
    }
    out::pairs(&[
        ("address", node.address.clone()),
        ("name", node.name.clone()),
        ("state", state(&node)),
        ("session", node.session.to_string()),
        ("lease until", out::time(node.lease_until)),
        ("lease TTL", format!("{} ms", node.ttl_ms)),
        ("slots", format!("{} of {} in use", node.in_use(), node.slots)),
        ("labels", labels(&node)),
        ("version", node.version.clone()),
        ("started", out::time(node.started_at)),
        ("clock", clock(node.clock_offset_ms)),
    ]);
    let leases = every(|paging| async move { reading::leases(db, &paging).await }).await?;
    let rows: Vec<_> = (leases.items.iter())
        .filter(|lease| lease.address == address)
        .flat_map(|lease| lease.runs.iter().map(|run| (lease.session, run)))
        .map(|(session, run)| {
            vec![
                run.run_id.to_string(),
                run.job_id.clone(),
                run.attempt.to_string(),
                session.to_string(),
                run.fence.to_string(),
                out::time(run.claimed_at),
            ]
        })
        .collect();
    if !rows.is_empty() {
        out::line("");
        out::table("RUN|JOB|TRY|SESSION|FENCE|CLAIMED", rows);
    }
    Ok(Exit::Ok)
}

fn clock(offset_ms: Option<i64>) -> String {
    match offset_ms {
        None => "not measured yet".to_owned(),
        Some(0) => "with the database's".to_owned(),
        Some(ms) if ms > 0 => format!("{ms} ms behind the database's"),
        Some(ms) => format!("{} ms ahead of the database's", ms.unsigned_abs()),
    }
}

pub(super) fn labels(node: &NodeItem) -> String {
    let pairs: Vec<_> = node.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.join(" ")
}

/// The state with who wanted it and until when.
pub(super) fn state(node: &NodeItem) -> String {
    let mut text = node.state.to_string();
    if let (true, Some(by), Some(at)) = (
        matches!(node.state, NodeState::Cordoned | NodeState::Draining),
        &node.withheld_by,
        node.withheld_at,
    ) {
        text.push_str(&format!(", by {by} at {}", out::time(at)));
    }
    if let (NodeState::Blocked, Some(why)) = (node.state, &node.cannot_start) {
        text.push_str(&format!(": it claims nothing, {why}"));
    }
    match node.drain_until {
        Some(until) if node.in_use() > 0 => {
            text.push_str(&format!(
                "; {} until {}",
                out::count_of(node.in_use(), "run has", "runs have"),
                out::time(until)
            ));
        }
        _ if node.state == NodeState::Draining => text.push_str(&match node.in_use() {
            0 => "; nothing runs there any more".to_owned(),
            n => format!("; it waits for {}", out::count(n, "run")),
        }),
        _ => {}
    }
    text
}
