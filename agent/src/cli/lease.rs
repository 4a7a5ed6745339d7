//! `farmhand lease`: who holds what, and the last resort.

use clap::{Args, Subcommand};
use farmhand_common::store::events::{Event, record_events};
use farmhand_common::store::protocol::{Expired, Freed, force_expire};
use farmhand_common::store::query;
use farmhand_common::store::{Db, Severity};
use serde_json::json;

use super::{DatabaseArgs, Exit, Failure, Outcome, completion, node, out, terminal};

/// A node that renews may move its beat between the look and the release.
const TRIES: usize = 20;

#[derive(Args, Debug)]
pub struct LeaseArgs {
    #[command(subcommand)]
    command: LeaseCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum LeaseCommand {
    /// Every session that is open or still holds runs
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

pub async fn run(args: &LeaseArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    match &args.command {
        LeaseCommand::Ls => list(&db, as_json).await,
        LeaseCommand::Release(args) => release(&db, args, as_json).await,
    }
}

async fn list(db: &Db, as_json: bool) -> Outcome {
    let leases = query::leases(db).await?;
    if as_json {
        out::json(&leases);
        return Ok(Exit::Ok);
    }
    let headers = ["ADDRESS", "SESSION", "STATE", "LEASE UNTIL", "RUNS", "HELD"];
    let rows = leases.iter().map(|lease| {
        let held: Vec<_> = lease
            .runs
            .iter()
            .map(|run| format!("{}#{} ({})", run.run_id, run.attempt, run.job_id))
            .collect();
        vec![
            lease.address.clone(),
            lease.session.to_string(),
            lease.state.clone(),
            out::time(lease.lease_until),
            lease.runs.len().to_string(),
            held.join(", "),
        ]
    });
    out::table(&headers, rows.collect());
    Ok(Exit::Ok)
}

async fn release(db: &Db, args: &ReleaseArgs, as_json: bool) -> Outcome {
    let address = args.address.as_str();
    let node = node::one(db, address).await?;
    if !node.open {
        return Err(Failure::new(Exit::Refused, format!("{address} holds no lease"))
            .why(format!("its session {} has ended already", node.session)));
    }
    let danger = format!(
        "Releasing the lease of {address} (session {}, {} runs) by force lets other nodes start its runs while its \
         own processes may still run: they may run twice. Without force, a dead node's lease ends by itself.",
        node.session, node.running
    );
    if !args.force {
        return Err(
            Failure::new(Exit::Refused, format!("the lease of {address} was not released"))
                .why(danger)
                .next("wait for the takeover; if you know that the node's processes are dead, add --force"),
        );
    }
    terminal::confirm(&danger, address, args.confirm.as_deref())?;
    let freed = end_session(db, address, node.session).await?;
    record(db, address, node.session, &freed).await?;
    if as_json {
        out::json(
            &json!({"address": address, "session": node.session, "freed": freed.iter().map(|f| f.run_id).collect::<Vec<_>>()}),
        );
    } else {
        out::line(&format!(
            "{address}: session {} ended, {} runs freed",
            node.session,
            freed.len()
        ));
    }
    Ok(Exit::Ok)
}

/// Ends the session that was confirmed, and no later one.
async fn end_session(db: &Db, address: &str, session: i64) -> Result<Vec<Freed>, Failure> {
    for _ in 0..TRIES {
        let node = node::one(db, address).await?;
        if !node.open || node.session != session {
            return Err(Failure::new(
                Exit::Refused,
                format!("session {session} of {address} has ended meanwhile"),
            )
            .next("look again with `farmhand lease ls`"));
        }
        if let Expired::Done { freed } = force_expire(db, address, session, node.life, node.beat).await? {
            return Ok(freed);
        }
    }
    Err(Failure::new(
        Exit::Refused,
        format!("the lease of {address} could not be released"),
    )
    .why("the node renews it all the time, or the database's timeline is not open")
    .next(format!(
        "`farmhand node drain {address}` asks a live node to let go"
    )))
}

async fn record(db: &Db, address: &str, session: i64, freed: &[Freed]) -> Result<(), Failure> {
    let runs: Vec<i64> = freed.iter().map(|f| f.run_id).collect();
    let event = Event {
        kind: "lease_released".to_owned(),
        severity: Severity::Warning,
        job_id: None,
        run_id: None,
        attempt: None,
        address: Some(address.to_owned()),
        session: Some(session),
        fence: None,
        detail: json!({"by": super::who(), "forced": true, "runs": runs}),
    };
    Ok(record_events(db, &[event]).await?)
}
