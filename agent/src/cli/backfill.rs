//! `farmhand job backfill`: runs for instants of the past that have none.

use std::collections::BTreeSet;

use clap::Args;
use farmhand_common::core::due;
use farmhand_common::store::jobs::{Backfilled, Listed, backfill, ran_instants};
use farmhand_common::store::{Db, query};
use jiff::Timestamp;
use serde_json::json;

use super::next::moment;
use super::progress::Progress;
use super::{Exit, Failure, Outcome, completion, due_now, job, out, terminal};

/// Instants looked at by one command.
const LOOKED_AT: usize = 1_000_000;

#[derive(Args, Debug)]
pub struct BackfillArgs {
    #[arg(add = completion::job_names())]
    name: String,
    /// From this time on: RFC 3339, or a date or time on the clock of the job's zone
    #[arg(long, value_name = "T")]
    from: String,
    /// Up to this time, itself not included [default: now]
    #[arg(long, value_name = "T")]
    to: Option<String>,
    /// Only show what would be run
    #[arg(long)]
    dry_run: bool,
    /// Refuse when there are more runs to make than this
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max: u32,
    /// Do not ask before making the runs
    #[arg(long)]
    yes: bool,
}

/// What the schedule says about a stretch of the past.
#[derive(Debug, Default)]
struct Plan {
    /// To be run, ascending.
    missing: Vec<Timestamp>,
    /// These have a run.
    ran: usize,
    /// A calendar excludes these.
    excluded: usize,
}

pub async fn run(db: &Db, args: &BackfillArgs, as_json: bool) -> Outcome {
    let row = job::one(db, &args.name).await?;
    let now = query::now(db).await?;
    let (plan, from, to) = plan(db, &row, args, now).await?;
    let count = plan.missing.len();
    if !as_json {
        show(&plan);
    }
    if count > args.max as usize {
        return Err(Failure::new(
            Exit::Refused,
            format!("{count} runs would be made, more than --max {}", args.max),
        )
        .next("take a shorter stretch, or raise --max"));
    }
    let mut run_ids = Vec::new();
    if !args.dry_run && count > 0 {
        confirm(args, count)?;
        let who = super::who();
        let work = backfill(db, &args.name, row.rev, &plan.missing, &who);
        let mut progress = Progress::default();
        run_ids = made(
            progress.during(&format!("making {count} runs"), work).await?,
            &args.name,
        )?;
    }
    if as_json {
        out::json(
            &json!({"job_id": args.name, "from": from, "to": to, "instants": plan.missing,
            "already_run": plan.ran, "excluded": plan.excluded, "run_ids": run_ids, "applied": !args.dry_run}),
        );
    } else {
        out::note(&match (count, args.dry_run) {
            (0, _) => "nothing to do".to_owned(),
            (_, true) => format!("{count} runs would be made (nothing was: --dry-run)"),
            (_, false) => format!("{} runs made; they run one after the other", run_ids.len()),
        });
    }
    Ok(Exit::Ok)
}

async fn plan(
    db: &Db,
    row: &Listed,
    args: &BackfillArgs,
    now: Timestamp,
) -> Result<(Plan, Timestamp, Timestamp), Failure> {
    let (schedule, policy) = due::compile(&row.job_id, &job::spec(row)?).map_err(due_now::unusable)?;
    if !schedule.has_instants() {
        return Err(Failure::new(
            Exit::Refused,
            format!("{} has no instants to make up for", row.job_id),
        )
        .next("`farmhand job run` runs it now"));
    }
    let zone = schedule.timezone();
    let from = moment("--from", &args.from, zone)?;
    let to = match &args.to {
        Some(text) => moment("--to", text, zone)?,
        None => now,
    };
    if to <= from {
        return Err(Failure::usage("--to is not after --from").next("swap them?"));
    }
    // What is to come is the schedule's own.
    let end = to.min(row.next_run.unwrap_or(now)).min(now);
    let ran: BTreeSet<Timestamp> = ran_instants(db, &row.job_id, from, to)
        .await?
        .into_iter()
        .collect();
    let mut plan = Plan::default();
    let mut progress = Progress::default();
    for (looked, at) in schedule.between(from, end).enumerate() {
        if looked.is_multiple_of(1_000) {
            progress.say(|_| format!("looking at {}, {looked} instants so far", out::time(at)));
        }
        if looked == LOOKED_AT {
            return Err(Failure::new(
                Exit::Refused,
                format!("more than {LOOKED_AT} instants lie between --from and --to"),
            )
            .next("take a shorter stretch"));
        }
        match due::skipped_at(&policy, at) {
            Some(_) => plan.excluded += 1,
            None if ran.contains(&at) => plan.ran += 1,
            None => plan.missing.push(at),
        }
    }
    Ok((plan, from, to))
}

/// The first and the last of them: a stretch may hold thousands.
fn show(plan: &Plan) {
    const ENDS: usize = 10;
    let count = plan.missing.len();
    for (index, at) in plan.missing.iter().enumerate() {
        if index == ENDS && count > 2 * ENDS {
            out::line(&format!("… {} more", count - 2 * ENDS));
        }
        if index < ENDS || index + ENDS >= count {
            out::line(&out::time(*at));
        }
    }
    if plan.ran > 0 {
        out::note(&format!("{} instants have a run and get no second one", plan.ran));
    }
    if plan.excluded > 0 {
        out::note(&format!(
            "{} instants are outside start and end, or excluded by a calendar",
            plan.excluded
        ));
    }
}

fn confirm(args: &BackfillArgs, count: usize) -> Result<(), Failure> {
    if args.yes || !terminal::can_ask() {
        return Ok(());
    }
    let answer = terminal::ask(&format!("Make {count} runs of {}? [y/N] ", args.name))?;
    if answer.eq_ignore_ascii_case("y") {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "no runs were made"))
}

fn made(answer: Backfilled, name: &str) -> Result<Vec<i64>, Failure> {
    let refused = |what: String| Failure::new(Exit::Refused, what);
    match answer {
        Backfilled::Done { run_ids } => Ok(run_ids),
        Backfilled::Changed => {
            Err(refused(format!("{name} was changed meanwhile")).next("look at it, then try again"))
        }
        Backfilled::Disabled => {
            Err(refused(format!("{name} is not enabled")).next("apply it with enabled = true"))
        }
        Backfilled::NoNode => Err(
            refused(format!("{name} runs on each node, and no node is ready for it"))
                .next("`farmhand node ls`"),
        ),
        Backfilled::NotFound => Err(job::no_job(name)),
    }
}
