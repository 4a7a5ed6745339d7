//! `farmhand next` for the jobs of the farm.

use std::cmp::Reverse;

use farmhand_core::definition::trigger_text;
use farmhand_core::document::duration_text;
use farmhand_core::due::{self, DuePolicy};
use farmhand_core::schedule::Schedule;
use farmhand_store::Db;
use farmhand_store::jobs::Listed;
use farmhand_store::reading::{self, Ahead, NextInstants, Step};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::next::{NextArgs, distance, show};
use super::{Exit, Failure, Outcome, out};
use farmhand_control::moment;
use farmhand_control::{due_now, jobs};

pub(super) async fn run(args: &NextArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let now = reading::now(&db).await?;
    if let Some(by) = &args.by {
        let step = if by == "day" { Step::Day } else { Step::Hour };
        return ahead(&reading::ahead(&db, now, step).await?, step, as_json);
    }
    match &args.job {
        Some(name) => one(&db, name, args, now, as_json).await,
        None => all(&db, args, now, as_json).await,
    }
}

/// The instants of one job as its definition has them, paused or not.
async fn one(db: &Db, name: &str, args: &NextArgs, now: Timestamp, as_json: bool) -> Outcome {
    let row = jobs::one(db, name).await?;
    let (schedule, policy) = compiled(&row)?;
    let from = match &args.from {
        Some(text) => moment("--from", text, schedule.timezone())?,
        None => now,
    };
    let instants = if schedule.is_continuous() {
        waiting_rounds(db, name, from, args.count).await?
    } else {
        due::upcoming(&schedule, &policy, from, args.count as usize)
    };
    if as_json {
        let job_id = name.to_owned();
        out::json(&NextInstants {
            job_id,
            from,
            instants,
        });
        return Ok(Exit::Ok);
    }
    if let Some(after) = trigger_text(&row.spec) {
        out::note(&format!("{name}: it runs {after}"));
    }
    let why = match (row.enabled, row.paused, row.scheduled || !instants.is_empty()) {
        (true, false, _) if schedule.is_continuous() => {
            Some("it is continuous: again as soon as it has ended; these are the rounds that wait")
        }
        (_, _, false) if schedule.fires_at_boot() => Some("it fires once per boot of each node"),
        (false, ..) => Some("it is disabled: none of these will fire"),
        (_, true, _) => Some("it is paused: none of these fires before `farmhand job resume`"),
        _ if row.observe => Some("it observes: these are recorded, and none of them runs"),
        (.., false) if schedule.has_instants() => Some("its schedule has no instant left"),
        (.., false) if trigger_text(&row.spec).is_some() => None,
        (.., false) => Some("it has no schedule"),
        _ => None,
    };
    if let Some(why) = why {
        out::note(&format!("{name}: {why}"));
    }
    if let Some(text) = fold(&instants) {
        out::note(&schedule.describe());
        out::line(&text);
        return Ok(Exit::Ok);
    }
    show(&schedule, &instants, now, false);
    Ok(Exit::Ok)
}

/// When the rounds of a continuous job that rest after a failure, or found nothing to do, come again.
async fn waiting_rounds(db: &Db, name: &str, from: Timestamp, count: u32) -> Result<Vec<Timestamp>, Failure> {
    let live = reading::live_runs(db, name, None).await?;
    let mut ready: Vec<Timestamp> = (live.iter())
        .filter(|run| run.running_at.is_none() && run.ready_at > from)
        .map(|run| run.ready_at)
        .collect();
    ready.sort_unstable();
    ready.dedup();
    ready.truncate(count as usize);
    Ok(ready)
}

/// The shortest row of equal distances that is worth folding, and the longest distance.
const FOLDED: usize = 4;
const FREQUENT: SignedDuration = SignedDuration::from_mins(5);

/// Neighbours that follow each other as fast and as regularly as to make a table unreadable become one line.
fn fold(instants: &[Timestamp]) -> Option<String> {
    let (first, last) = (instants.first()?, instants.last()?);
    let gap = instants.get(1)?.duration_since(*first);
    let regular = instants.windows(2).all(|w| w[1].duration_since(w[0]) == gap);
    if !regular || gap > FREQUENT || instants.len() < FOLDED {
        return None;
    }
    let every = duration_text(gap.unsigned_abs());
    let text = format!(
        "{} to {}: every {every}, {} times",
        out::time(*first),
        out::time(*last),
        instants.len()
    );
    Some(text)
}

/// What fires next in the farm, each job once.
async fn all(db: &Db, args: &NextArgs, now: Timestamp, as_json: bool) -> Outcome {
    if args.from.is_some() {
        return Err(Failure::usage("--from needs a job or an --expr"));
    }
    let mut next: Vec<(Timestamp, String)> = jobs::all(db)
        .await?
        .into_iter()
        .filter_map(|row| Some((next_of(&row)?, row.job_id)))
        .collect();
    next.sort();
    next.truncate(args.count as usize);
    let list: Vec<_> = (next.iter())
        .map(|(at, name)| json!({"job_id": name, "at": at}))
        .collect();
    let rows = next
        .into_iter()
        .map(|(at, name)| vec![out::time(at), distance(now, at), name]);
    out::list(as_json, &list, "TIME|IN|JOB", rows)
}

/// Its next instant on a day that no calendar excludes.
fn next_of(row: &Listed) -> Option<Timestamp> {
    let at = row.next_run?;
    if row.spec.get("exclude").is_none() {
        return Some(at);
    }
    match compiled(row) {
        Ok((schedule, policy)) => due::first_from(&schedule, &policy, at),
        Err(_) => Some(at),
    }
}

/// An hour or a day to a row, with the jobs that are due in it most often first.
fn ahead(ahead: &Ahead, step: Step, as_json: bool) -> Outcome {
    if as_json {
        out::json(ahead);
        return Ok(Exit::Ok);
    }
    let row = |(column, from): (usize, &Timestamp)| {
        let mut due: Vec<(usize, &str)> = (ahead.jobs.iter())
            .map(|job| (job.due_in(column), job.job_id.as_str()))
            .filter(|(n, _)| *n > 0)
            .collect();
        due.sort_by_key(|(n, _)| Reverse(*n));
        let names: Vec<String> = (due.iter())
            .map(|(n, name)| match n {
                1 => (*name).to_owned(),
                n => format!("{name} ×{n}"),
            })
            .collect();
        let busy = ahead.busy(column);
        vec![
            out::time(*from),
            due.iter().map(|(n, _)| n).sum::<usize>().to_string(),
            if busy.is_zero() {
                String::new()
            } else {
                out::span(busy)
            },
            names.join(", "),
        ]
    };
    let columns = ahead.edges.len().saturating_sub(1);
    let from = if step == Step::Day { "DAY" } else { "HOUR" };
    let rows = ahead.edges.iter().take(columns).enumerate().map(row);
    out::table(&format!("{from} FROM|DUE|BUSY|JOBS"), rows);
    for job in ahead.jobs.iter().filter(|job| job.counts.is_none()) {
        out::note(&format!(
            "not counted, because it is due so often: {}: {}",
            job.job_id, job.schedule
        ));
    }
    if ahead.left_out > 0 {
        out::note(&format!(
            "{} are due later than these and are not shown",
            out::count(ahead.left_out, "job")
        ));
    }
    Ok(Exit::Ok)
}

fn compiled(row: &Listed) -> Result<(Schedule, DuePolicy), Failure> {
    due::compile(&row.job_id, &jobs::spec(row)?).map_err(|e| due_now::unusable(e).into())
}
