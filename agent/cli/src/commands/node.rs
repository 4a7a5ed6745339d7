//! `farmhand node`: the servers of the farm.

use clap::{Args, Subcommand};
use farmhand_store::Db;
use farmhand_store::reading::{self, NodeItem, NodeState, every};

use super::{DatabaseArgs, Exit, Outcome, act, completion, drain, out};
use farmhand_control::actions::{Cordon, RemoveNode, Uncordon};
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
            act::run(&db, Cordon { node }, as_json).await
        }
        NodeCommand::Rm { address } => {
            let node = address.clone();
            act::run(&db, RemoveNode { node }, as_json).await
        }
        NodeCommand::Drain(args) => drain::run(&db, args, as_json).await,
        NodeCommand::Resume { address } => {
            let node = address.clone();
            act::run(&db, Uncordon { node }, as_json).await
        }
    }
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
