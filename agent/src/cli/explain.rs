//! `farmhand explain`: why a job does not run.

use std::time::Duration;

use clap::{Args, Subcommand};
use farmhand_common::core::definition::Rate;
use farmhand_common::core::explain::{
    Explanation, Facts, Gate, Held, Known, Live, Needed, Node, Outcome as Recorded, Paused, TriggerWait,
    Triggering, explain, subject,
};
use farmhand_common::store::jobs::{self, Listed};
use farmhand_common::store::pools::{GateFacts, gate_facts};
use farmhand_common::store::{Db, protocol, query};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::next::moment;
use super::{DatabaseArgs, Exit, Failure, Outcome, completion, job, out};

#[derive(Args, Debug)]
pub struct ExplainArgs {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Walks the gates that a run passes and says which holds the job back, since when, and what would free it
    Job {
        #[arg(add = completion::job_names())]
        name: String,
        /// The due instant in question: RFC 3339, or a date and time on the clock of the job's zone [default: now]
        #[arg(long, value_name = "T")]
        at: Option<String>,
    },
}

pub async fn run(args: &ExplainArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let What::Job { name, at } = &args.what;
    let explanation = explain(&facts(&db, name, at.as_deref()).await?);
    if as_json {
        out::json(&explanation);
    } else {
        show(&explanation);
    }
    Ok(match explanation.held_by {
        Some(Gate::Exists) if at.is_none() => Exit::NotFound,
        _ => Exit::Ok,
    })
}

async fn facts(db: &Db, name: &str, at: Option<&str>) -> Result<Facts, Failure> {
    let row = jobs::job(db, name).await?;
    let zone = row
        .as_ref()
        .and_then(|row| TimeZone::get(row.spec["timezone"].as_str()?).ok())
        .unwrap_or(TimeZone::UTC);
    let at = at.map(|text| moment("--at", text, &zone)).transpose()?;
    let status = query::farm_status(db).await?;
    let nodes = query::nodes(db, None).await?;
    let known = match row {
        Some(row) => Some(known(db, &row, at, status.db_now).await?),
        None => None,
    };
    Ok(Facts {
        job: name.to_owned(),
        now: status.db_now,
        at,
        known,
        nodes: (nodes.into_iter())
            .map(|node| Node {
                address: node.address,
                state: node.state,
                slots: node.slots.into(),
                running: node.running,
                labels: node.labels,
                since: if node.open {
                    node.withheld_at
                } else {
                    Some(node.lease_until)
                },
                by: node.withheld_by.filter(|_| node.open),
            })
            .collect(),
        timeline_open: status.timeline_open,
    })
}

async fn known(db: &Db, row: &Listed, at: Option<Timestamp>, now: Timestamp) -> Result<Known, Failure> {
    const REVISIONS: i64 = 10_000;
    let revisions = jobs::revisions(db, &row.job_id, REVISIONS).await?;
    let outcomes = match at {
        Some(at) => query::runs_at(db, &row.job_id, at).await?,
        None => Vec::new(),
    };
    let live: Vec<Live> = (query::live_runs(db, &row.job_id).await?.into_iter())
        .map(|run| Live {
            run_id: run.run_id,
            rev: run.rev,
            due_at: run.due_at,
            ready_at: run.ready_at,
            created_at: run.created_at,
            gate: run.gate,
            reason: run.reason,
            running_at: run.running_at,
            claimed_at: run.claimed_at,
            node: run.node,
        })
        .collect();
    let needed = match subject(&live, at) {
        Some(run) => gate_facts(db, &row.job_id, run.rev, run.run_id).await?,
        None => None,
    };
    let triggers = protocol::triggers(db, &row.job_id).await?;
    Ok(Known {
        spec: job::spec(row)?,
        since: revisions.last().map_or(row.applied_at, |first| first.applied_at),
        applied_at: row.applied_at,
        paused: row.paused.then(|| Paused {
            by: row.paused_by.clone(),
            at: row.paused_at,
            reason: row.pause_reason.clone(),
        }),
        next_run: row.next_run,
        decided_until: row.decided_until,
        outcomes: (outcomes.into_iter())
            .map(|run| Recorded {
                run_id: run.run_id,
                state: run.state,
                reason: run.reason,
                first_due: run.first_due,
                finished_at: run.finished_at,
                running_at: run.running_at,
            })
            .collect(),
        live,
        needed: needed.map(|facts| need(facts, now)),
        triggers: (triggers.parents.into_iter())
            .map(|parent| Triggering {
                job: parent.job_id,
                state: parent.state,
                next_run: parent.next_run,
                running: parent.running,
                running_at: parent.running_at,
                last_state: parent.last_state,
                last_finished: parent.last_finished,
            })
            .collect(),
        waiting: (triggers.waiting.into_iter())
            .map(|wait| TriggerWait {
                parent: wait.parent,
                run_id: wait.run_id,
                due_at: wait.due_at,
                since: wait.ended_at,
                waits: wait.waits,
            })
            .collect(),
    })
}

fn need(facts: GateFacts, now: Timestamp) -> Needed {
    let rate = facts.rate_count.zip(facts.rate_ms).map(|(count, ms)| {
        Rate {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            window: Duration::from_millis(ms.unsigned_abs()),
        }
        .to_string()
    });
    Needed {
        now,
        pool: facts.pool,
        pool_size: facts.pool_size,
        node_pool: facts.node_pool,
        node_pool_size: facts.node_pool_size,
        locks: facts.locks,
        rate,
        rate_free_at: facts.rate_free_at,
        holders: (facts.holders.into_iter())
            .map(|holder| Held {
                run_id: holder.run_id,
                job_id: holder.job_id,
                node: holder.node,
                since: holder.since,
                pool: holder.pool,
                node_pool: holder.node_pool,
                locks: holder.locks,
            })
            .collect(),
        before: (facts.before.into_iter())
            .map(|run| (run.run_id, run.job_id))
            .next(),
    }
}

fn show(explanation: &Explanation) {
    out::line(&out::printable(&format!(
        "{}: {}",
        explanation.job_id, explanation.answer
    )));
    let held = explanation.gates.iter().find(|finding| !finding.open);
    if let Some(since) = held.and_then(|finding| finding.since) {
        out::line(&format!("  since: {}", out::time(since)));
    }
    if let Some(frees) = held.and_then(|finding| finding.frees.as_ref()) {
        out::line(&out::printable(&format!("  what would free it: {frees}")));
    }
    out::line("");
    let rows = explanation.gates.iter().map(|finding| {
        let name = serde_json::to_value(finding.gate).unwrap_or_default();
        vec![
            name.as_str().unwrap_or_default().to_owned(),
            if finding.open { "open" } else { "CLOSED" }.to_owned(),
            finding.what.clone(),
        ]
    });
    out::table(&["GATE", "STATE", "WHY"], rows.collect());
}
