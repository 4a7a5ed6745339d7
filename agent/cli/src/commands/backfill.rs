//! `farmhand job backfill`: runs for instants of the past that have none.

use clap::Args;
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::{Db, reading};
use serde_json::json;

use super::progress::Progress;
use super::{Exit, Failure, Outcome, completion, out, terminal};
use farmhand_control::actions::Backfill;
use farmhand_control::backfill::{Plan, make, plan};
use farmhand_control::{Action, jobs};

#[derive(Args, Debug)]
pub(crate) struct BackfillArgs {
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

pub(super) async fn run(db: &Db, args: &BackfillArgs, as_json: bool) -> Outcome {
    let row = jobs::one(db, &args.name).await?;
    let now = reading::now(db).await?;
    let mut progress = Progress::default();
    let looking = |looked: usize, at| {
        progress.say(|_| format!("looking at {}, {looked} instants so far", out::time(at)))
    };
    let plan = plan(db, &row, &args.from, args.to.as_deref(), now, looking).await?;
    let (from, to) = plan.stretch;
    if !as_json {
        show(&plan);
    }
    let count = plan.count(args.max as usize)?;
    let mut run_ids = Vec::new();
    if !args.dry_run && count > 0 {
        confirm(args, count)?;
        let who = super::who();
        let action = Action::from(Backfill {
            job: args.name.clone(),
            from: args.from.clone(),
            to: args.to.clone(),
            max: args.max,
        });
        let deed = Deed {
            job_id: Some(args.name.clone()),
            ..Deed::of(&who, action.word(), action.cli())
        };
        let acting = Acting::begin(db, deed);
        let work = make(&acting, &row, &plan, &who);
        run_ids = Progress::default()
            .during(&format!("making {}", out::count(count, "run")), work)
            .await?;
    }
    if as_json {
        out::json(
            &json!({"job_id": args.name, "from": from, "to": to, "instants": plan.missing,
            "already_run": plan.ran, "excluded": plan.excluded, "forgotten": plan.forgotten,
            "rescheduled": plan.rescheduled, "observed": plan.observed, "run_ids": run_ids, "applied": !args.dry_run}),
        );
    } else {
        out::note(&match (count, args.dry_run) {
            (0, _) => "nothing to do".to_owned(),
            (_, true) => format!(
                "{} would be made (nothing was: --dry-run)",
                out::count(count, "run")
            ),
            (_, false) => format!(
                "{} made; they run one instant after the other",
                out::count(run_ids.len(), "run")
            ),
        });
    }
    Ok(Exit::Ok)
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
        out::note(&format!(
            "{} no second one",
            out::count_of(
                plan.ran,
                "instant has a run and gets",
                "instants have a run and get"
            )
        ));
    }
    plan.left_out().iter().for_each(|text| out::note(text));
    if plan.excluded > 0 {
        out::note(&format!(
            "{} outside start and end, or excluded by a calendar",
            out::count_of(plan.excluded, "instant is", "instants are")
        ));
    }
}

fn confirm(args: &BackfillArgs, count: usize) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let (nothing, runs) = ("no runs were made", out::count(count, "run"));
    let what = format!("this would make {runs} of {}; {nothing}", args.name);
    let unasked = Failure::refused(what).next("add --yes");
    terminal::agree(&format!("Make {runs} of {}?", args.name), nothing, unasked)
}
