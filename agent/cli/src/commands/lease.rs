//! `farmhand lease`: who holds what, and the last resort.

use clap::{Args, Subcommand};
use farmhand_store::Db;
use farmhand_store::reading::{self, every};

use super::{DatabaseArgs, Failure, Outcome, act, completion, out, terminal};
use farmhand_control::actions::Release;
use farmhand_control::nodes::{leased, release_danger};

#[derive(Args, Debug)]
pub(crate) struct LeaseArgs {
    #[command(subcommand)]
    command: LeaseCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum LeaseCommand {
    /// Every session that is open or still holds runs
    #[command(alias = "list")]
    Ls,
    /// End a node's session now and free its runs, without waiting until its processes must be dead
    Release(ReleaseArgs),
}

#[derive(Args, Debug)]
struct ReleaseArgs {
    #[arg(add = completion::node_names())]
    address: String,
    /// Say that the runs may then run twice
    #[arg(long)]
    force: bool,
    /// The address once more, where there is no terminal to type it on
    #[arg(long, value_name = "ADDRESS")]
    confirm: Option<String>,
}

pub(super) async fn run(args: &LeaseArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    match &args.command {
        LeaseCommand::Ls => list(&db, as_json).await,
        LeaseCommand::Release(args) => release(&db, args, as_json).await,
    }
}

async fn list(db: &Db, as_json: bool) -> Outcome {
    let leases = every(|paging| async move { reading::leases(db, &paging).await }).await?;
    let rows = leases.items.iter().map(|lease| {
        let held: Vec<_> = lease
            .runs
            .iter()
            .map(|run| format!("{}#{} ({})", run.run_id, run.attempt, run.job_id))
            .collect();
        vec![
            lease.address.clone(),
            lease.session.to_string(),
            lease.state.to_string(),
            out::time(lease.lease_until),
            match i64::try_from(lease.runs.len()) {
                Ok(n) if n < reading::MOST => n.to_string(),
                _ => format!("{} or more", reading::MOST),
            },
            held.join(", "),
        ]
    });
    out::list(
        as_json,
        &leases,
        "ADDRESS|SESSION|STATE|LEASE UNTIL|RUNS|HELD",
        rows,
    )
}

async fn release(db: &Db, args: &ReleaseArgs, as_json: bool) -> Outcome {
    let address = args.address.as_str();
    let node = leased(db, address).await?;
    let danger = release_danger(&node);
    if !args.force {
        return Err(
            Failure::refused(format!("the lease of {address} was not released"))
                .why(danger)
                .next("wait for the takeover; if you know that the node's processes are dead, add --force"),
        );
    }
    terminal::confirm(&danger, address, args.confirm.as_deref())?;
    let action = Release {
        node: address.to_owned(),
        session: Some(node.session),
        confirm: Some(address.to_owned()),
    };
    act::run(db, action, as_json).await
}
