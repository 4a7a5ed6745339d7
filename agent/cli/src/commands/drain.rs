//! `farmhand node drain`: nothing new, what runs to its end, and no longer than the deadline.

use std::time::Duration;

use clap::Args;
use farmhand_control::actions::Drain;
use farmhand_core::document::parse_duration;
use farmhand_store::Db;
use farmhand_store::reading::{NodeItem, NodeState};

use super::follow::expiry;
use super::progress::Progress;
use super::{Exit, Failure, Outcome, act, completion, node, out};

const PAUSE: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    #[arg(add = completion::node_names())]
    address: String,
    /// What still runs after this is ended by SIGTERM, and SIGKILL after its grace, and runs elsewhere [default: none]
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
    /// Wait until nothing runs there any more
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this (exit code 124); the draining goes on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait_timeout: Option<Duration>,
}

pub(super) async fn run(db: &Db, args: &DrainArgs, as_json: bool) -> Outcome {
    let action = Drain {
        node: args.address.clone(),
        deadline: args.deadline.clone(),
    };
    if !args.wait && args.wait_timeout.is_none() {
        return act::run(db, action, as_json).await;
    }
    let answer = act::act(db, action, None).await?;
    if !as_json {
        act::say(&answer);
    }
    let drained = tokio::select! {
        drained = until_drained(db, &args.address) => drained?,
        () = expiry(args.wait_timeout) => {
            out::note(&format!("{} still runs something and keeps draining", args.address));
            return Ok(Exit::WaitExpired);
        }
        _ = tokio::signal::ctrl_c() => {
            out::note(&format!("{} keeps draining; stop that with `farmhand node resume`", args.address));
            return Ok(Exit::Interrupted);
        }
    };
    let text = format!("{}: {}", drained.address, node::state(&drained));
    out::done(as_json, &drained, &text)
}

/// Looks until the node holds nothing.
async fn until_drained(db: &Db, address: &str) -> Result<NodeItem, Failure> {
    let mut progress = Progress::default();
    let mut away = false;
    loop {
        match node::one(db, address).await.map_err(Failure::from) {
            Ok(row) if row.in_use() == 0 && (row.state == NodeState::Draining || !row.open) => {
                return Ok(row);
            }
            Ok(row) if row.open && !matches!(row.state, NodeState::Draining | NodeState::Expired) => {
                progress.clear();
                return Err(Failure::refused(format!("{address} is {}", row.state))
                    .why("somebody took the draining back"));
            }
            Ok(row) => {
                away = false;
                progress.say(|elapsed| format!("{}, {}", node::state(&row), out::span(elapsed)));
            }
            Err(failure) if failure.exit == Exit::Unreachable => {
                if !std::mem::replace(&mut away, true) {
                    progress.clear();
                    out::note(&format!("the database is away; still waiting for {address}"));
                }
            }
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
