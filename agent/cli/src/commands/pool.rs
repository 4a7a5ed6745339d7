//! `farmhand pool`: places that jobs share.

use clap::{Args, Subcommand};
use farmhand_store::Db;
use farmhand_store::reading::{self, PoolItem, every};

use super::{DatabaseArgs, Outcome, act, completion, out};
use farmhand_control::actions::SetPool;

#[derive(Args, Debug)]
pub(crate) struct PoolArgs {
    #[command(subcommand)]
    command: PoolCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum PoolCommand {
    /// All pools, who is in them and how many wait
    #[command(alias = "list")]
    Ls,
    /// Resize a pool at once; runs in it go on, and the size stays until its job file has another
    Set {
        #[arg(add = completion::pool_names())]
        name: String,
        /// Places on the farm (`pool`), on each node (`node_pool`); 0 lets nothing start
        #[arg(value_parser = clap::value_parser!(u32).range(..=1_000_000))]
        size: u32,
    },
}

pub(super) async fn run(args: &PoolArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    match &args.command {
        PoolCommand::Ls => list(&db, as_json).await,
        PoolCommand::Set { name, size } => {
            let (pool, size) = (name.clone(), *size);
            act::run(&db, SetPool { pool, size }, as_json).await
        }
    }
}

async fn list(db: &Db, as_json: bool) -> Outcome {
    let all = every(|paging| async move { reading::pools(db, &paging).await }).await?;
    let rows = all.items.iter().map(|pool| {
        vec![
            pool.name.clone(),
            pool.size.to_string(),
            pool.file_size.to_string(),
            pool.in_use.to_string(),
            per_node(pool),
            pool.waiting.to_string(),
            pool.jobs.join(" "),
        ]
    });
    out::list(as_json, &all, "POOL|SIZE|FILE|IN USE|PER NODE|WAITING|JOBS", rows)
}

/// Places of nodes that are taken.
fn per_node(pool: &PoolItem) -> String {
    if pool.on_nodes.is_empty() {
        return "-".to_owned();
    }
    let nodes: Vec<String> = (pool.on_nodes.iter())
        .map(|(node, n)| format!("{node}={n}"))
        .collect();
    nodes.join(" ")
}
