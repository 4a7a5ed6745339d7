//! Doing it, or saying what it would do.

use std::pin::Pin;

use farmhand_core::definition::Overlap;
use farmhand_core::document::parse_duration;
use farmhand_core::run::RunState;
use farmhand_store::Db;
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::jobs::{self, Cancelled, Submission, Submitted, Withhold, still_begin, withhold};
use farmhand_store::notify;
use farmhand_store::pools::set_pool;
use farmhand_store::reading;
use serde_json::Value;

use super::actions::{
    Action, Backfill, Cancel, Cordon, DeleteJobs, Drain, Pause, Release, RemoveNode, Resume, Retry, SetPool,
    Submit, TestTarget, Uncordon,
};
use super::nodes::{leased, no_node, release_danger, release_lease};
use super::{By, backfill, definitions, due_now, jobs as job, nodes, runs};
use crate::{About, Answer, Refusal};
use farmhand_core::text::{span, time};

/// Largest size of a pool.
const POOL: u32 = 1_000_000;
/// Runs of one backfill, at most.
const BACKFILLED: u32 = 10_000;
/// Characters of the reason of a pause, at most.
const REASON: usize = 500;

type Doing<'a> = Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + Send + 'a>>;

/// Does it, or, without `commit`, only says what it would do now.
pub async fn perform(db: &Db, action: &Action, by: By<'_>, commit: bool) -> Result<Answer, Refusal> {
    let job = job_of(db, action).await?;
    by.may(action, job.as_deref())?;
    let (job_id, run_id, address) = match action.about() {
        About::Job(job) => (Some(job.to_owned()), None, None),
        About::Run(run) => (job, Some(run), None),
        About::Node(node) => (None, None, Some(node.to_owned())),
        About::Many | About::Jobs(_) | About::Shared(_) => (None, None, None),
    };
    let deed = Deed {
        job_id,
        run_id,
        address,
        ..by.deed(action.word(), action.cli())
    };
    let answer = doing(&Acting::begin(db, deed), action, by, commit).await?;
    Ok(Answer {
        applied: commit,
        cli: action.cli(),
        ..answer
    })
}

/// On the heap: in one frame the futures of all actions would take a third of a thread's stack.
fn doing<'a>(acting: &'a Acting, action: &'a Action, by: By<'a>, commit: bool) -> Doing<'a> {
    let who = by.who;
    match action {
        Action::Submit(action) => Box::pin(submit(acting, action, by, commit)),
        Action::Cancel(Cancel { run, firing }) => Box::pin(cancel(acting, *run, *firing, who, commit)),
        Action::Retry(Retry { run, from_failed }) => Box::pin(retry(acting, *run, *from_failed, by, commit)),
        Action::Replay(action) => Box::pin(runs::replay(acting, action, who, commit)),
        Action::Many(action) => Box::pin(crate::many::perform(acting, action, by, commit)),
        Action::Pause(Pause { job, reason }) => Box::pin(pause(acting, job, reason.as_deref(), who, commit)),
        Action::Resume(Resume { job }) => Box::pin(resume(acting, job, who, commit)),
        Action::Backfill(action) => Box::pin(fill(acting, action, who, commit)),
        Action::Rollback(action) => Box::pin(definitions::rollback(acting, action, who, commit)),
        Action::DeleteJobs(DeleteJobs { job }) => Box::pin(job::delete(acting, job, who, commit)),
        Action::Cordon(Cordon { node }) => Box::pin(order(acting, node, Withhold::Cordon, who, commit)),
        Action::Uncordon(Uncordon { node }) => Box::pin(order(acting, node, Withhold::Resume, who, commit)),
        Action::Drain(action) => Box::pin(drain(acting, action, who, commit)),
        Action::RemoveNode(RemoveNode { node }) => Box::pin(nodes::remove(acting, node, who, commit)),
        Action::Release(action) => Box::pin(release(acting, action, who, commit)),
        Action::SetPool(SetPool { pool, size }) => Box::pin(resize(acting, pool, *size, who, commit)),
        Action::TestTarget(TestTarget { target }) => Box::pin(test(acting, target, who, commit)),
    }
}

async fn drain(acting: &Acting, action: &Drain, who: &str, commit: bool) -> Result<Answer, Refusal> {
    let within = action.deadline.as_deref().map(parse_duration).transpose();
    let within = within.map_err(|why| Refusal::usage("the deadline is not a valid duration").why(why))?;
    order(acting, &action.node, Withhold::Drain { within }, who, commit).await
}

/// The job of the run that it is done to.
async fn job_of(db: &Db, action: &Action) -> Result<Option<String>, Refusal> {
    let About::Run(run) = action.about() else {
        return Ok(None);
    };
    let row = reading::run_row(db, run).await?;
    Ok(Some(row.ok_or_else(|| runs::no_run(run))?.job_id))
}

async fn submit(acting: &Acting, action: &Submit, by: By<'_>, commit: bool) -> Result<Answer, Refusal> {
    let Submit {
        job: job_id,
        params,
        overlap,
    } = action;
    let (params, overlap) = (Value::Object(params.clone()), *overlap);
    if overlap == Overlap::Latest {
        return Err(
            Refusal::usage("a run by hand takes the place of no other that waits")
                .next("write --overlap queue: it waits as well"),
        );
    }
    let submission = Submission {
        job_id,
        params: &params,
        key: by.once.map(|once| once.key),
        overlap,
        by: Some(by.who),
    };
    let Submitted {
        run_id,
        runs,
        skipped,
        live,
    } = jobs::submit_overlapping(acting, submission, commit).await?;
    if runs == 0 {
        return Ok(Answer {
            what: format!("run {run_id} was made by an earlier request with this key"),
            runs: vec![run_id],
            ..Answer::default()
        });
    }
    let others = match live {
        1 => "another run of it has not ended".to_owned(),
        n => format!("{n} other runs of it have not ended"),
    };
    let what = match (runs, skipped, live, overlap) {
        (_, skipped, ..) if skipped > 0 => {
            format!("{job_id}: {} recorded as skipped; {others}", counted(skipped))
        }
        (n, _, 0, _) => format!("{job_id}: {}", counted(n)),
        (n, _, _, Overlap::Queue) => format!("{job_id}: {}, after the others; {others}", counted(n)),
        (n, _, _, Overlap::Replace) => format!("{job_id}: {}, instead of the others; {others}", counted(n)),
        (n, ..) => format!("{job_id}: {}, beside the others; {others}", counted(n)),
    };
    Ok(Answer {
        what,
        twice: (live > 0 && overlap == Overlap::Allow).then(|| format!("{others}: this runs beside it")),
        runs: if commit { vec![run_id] } else { Vec::new() },
        ..Answer::default()
    })
}

async fn cancel(
    acting: &Acting,
    run_id: i64,
    firing: bool,
    who: &str,
    commit: bool,
) -> Result<Answer, Refusal> {
    let db = acting.db();
    let ids = if firing {
        runs::together(db, &[run_id]).await?
    } else {
        vec![run_id]
    };
    let mut texts = Vec::new();
    let mut ended = Vec::new();
    for id in ids {
        let outcome = if commit {
            jobs::cancel(acting, id, who).await?
        } else {
            outlook(db, id).await?
        };
        if firing && matches!(outcome, Cancelled::AlreadyFinal(_)) {
            continue;
        }
        texts.push(runs::cancelled(id, outcome)?);
        ended.push(id);
    }
    if texts.is_empty() {
        runs::cancelled(run_id, outlook(db, run_id).await?)?;
    }
    Ok(Answer {
        what: texts.join("; "),
        runs: ended,
        ..Answer::default()
    })
}

/// `1 run`, `2 runs`.
fn counted(n: i64) -> String {
    format!("{n} run{}", if n == 1 { "" } else { "s" })
}

/// What cancelling a run would do.
async fn outlook(db: &Db, run_id: i64) -> Result<Cancelled, Refusal> {
    let Some(row) = reading::run_row(db, run_id).await? else {
        return Ok(Cancelled::NotFound);
    };
    if row.state.is_final() {
        return Ok(Cancelled::AlreadyFinal(row.state));
    }
    let Some(node) = row.running_at else {
        return Ok(Cancelled::Now);
    };
    let holder = reading::node(db, &node).await?;
    let session = holder.map(|holder| holder.session);
    Ok(if session > row.session {
        Cancelled::Held
    } else {
        Cancelled::Requested { node }
    })
}

async fn retry(
    acting: &Acting,
    run_id: i64,
    from_failed: bool,
    by: By<'_>,
    commit: bool,
) -> Result<Answer, Refusal> {
    let db = acting.db();
    let row = reading::run_row(db, run_id).await?;
    let row = row.ok_or_else(|| runs::no_run(run_id))?;
    if !row.state.is_final() {
        return Err(runs::not_final(run_id));
    }
    let job_id = &row.job_id;
    let twice = match row.state {
        RunState::Succeeded => Some(format!("run {run_id} succeeded: this does it again")),
        RunState::Lost => Some(format!(
            "run {run_id} was lost: how much of it was done is unknown"
        )),
        _ => None,
    };
    let new = if commit {
        Some(runs::again(
            run_id,
            jobs::retry_run(acting, run_id, by.who, from_failed, by.once).await?,
        )?)
    } else {
        // The job may be gone.
        runs::may_run(&job::one(db, job_id).await?)?;
        None
    };
    let part = if from_failed { ", what failed of it," } else { "" };
    Ok(Answer {
        what: format!("run {run_id} of {job_id}{part} is run again, with its parameters, as a new run"),
        twice,
        runs: new.into_iter().collect(),
        ..Answer::default()
    })
}

/// What people write for the others; none of an empty one.
fn one_line(reason: Option<&str>) -> Result<Option<&str>, Refusal> {
    let reason = reason.map(str::trim).filter(|text| !text.is_empty());
    if reason.is_some_and(|text| text.chars().count() > REASON || text.chars().any(char::is_control)) {
        return Err(Refusal::usage(format!(
            "a reason is one line of at most {REASON} characters"
        )));
    }
    Ok(reason)
}

async fn pause(
    acting: &Acting,
    job_id: &str,
    reason: Option<&str>,
    who: &str,
    commit: bool,
) -> Result<Answer, Refusal> {
    let db = acting.db();
    let reason = one_line(reason)?;
    let changed = if commit {
        job::pause(acting, job_id, who, reason).await?
    } else {
        !job::one(db, job_id).await?.paused
    };
    if !changed {
        return Ok(format!("{job_id} is paused already").into());
    }
    let waiting = match still_begin(db, job_id).await? {
        0 => String::new(),
        n => format!(
            ", and what waits ({}) still begins: `farmhand run cancel --job {job_id} --state due` takes it back",
            counted(n)
        ),
    };
    Ok(format!("{job_id}: nothing fires until it is resumed; what runs goes on{waiting}").into())
}

async fn resume(acting: &Acting, job_id: &str, who: &str, commit: bool) -> Result<Answer, Refusal> {
    let db = acting.db();
    let row = job::one(db, job_id).await?;
    if !row.paused {
        return Ok(format!("{job_id} is not paused").into());
    }
    let spec = job::spec(&row)?;
    let (next_run, skipped) = due_now::after_pause(&row, &spec, reading::now(db).await?)?;
    if commit {
        job::resume(acting, job_id, who).await?;
    }
    let fell: i64 = skipped.iter().map(|fold| fold.count).sum();
    let next = match next_run {
        _ if !row.enabled => "it is not enabled, so nothing is due".to_owned(),
        _ if spec.is_continuous() => "its rounds begin again".to_owned(),
        Some(at) => format!("next run {}", time(at)),
        None => "nothing is due".to_owned(),
    };
    let fell = match fell {
        1 => "1 instant fell into the pause and is recorded as skipped".to_owned(),
        n => format!("{n} instants fell into the pause and are recorded as skipped"),
    };
    Ok(format!("{job_id}: {next}; {fell}").into())
}

async fn fill(acting: &Acting, action: &Backfill, who: &str, commit: bool) -> Result<Answer, Refusal> {
    let db = acting.db();
    let Backfill {
        job: job_id,
        from,
        to,
        max,
    } = action;
    if !(1..=BACKFILLED).contains(max) {
        return Err(Refusal::usage(format!(
            "max is {max}, and may be 1 to {BACKFILLED}"
        )));
    }
    let row = job::one(db, job_id).await?;
    let now = reading::now(db).await?;
    let plan = backfill::plan(db, &row, from, to.as_deref(), now, |_, _| ()).await?;
    let count = plan.count(*max as usize)?;
    let made = if commit && count > 0 {
        backfill::make(acting, &row, &plan, who).await?
    } else {
        Vec::new()
    };
    let ends = plan.missing.first().zip(plan.missing.last());
    let stretch = ends.map_or_else(String::new, |(first, last)| {
        format!(" for instants from {} to {}", time(*first), time(*last))
    });
    let mut what = format!(
        "{job_id}: {}{stretch}, one instant after the other; {} instants have one already",
        counted(i64::try_from(count).unwrap_or(i64::MAX)),
        plan.ran
    );
    for left_out in plan.left_out() {
        what.push_str(&format!("; {left_out}"));
    }
    Ok(Answer {
        what,
        runs: made,
        ..Answer::default()
    })
}

async fn order(
    acting: &Acting,
    address: &str,
    order: Withhold,
    who: &str,
    commit: bool,
) -> Result<Answer, Refusal> {
    let db = acting.db();
    let node = nodes::one(db, address).await?;
    if commit && !withhold(acting, address, order, who).await? {
        return Err(no_node(address));
    }
    let n = counted(node.in_use());
    let mut what = match order {
        Withhold::Cordon => format!("{address} claims nothing more; what it runs ({n}) goes on"),
        Withhold::Resume => format!("{address} claims again"),
        Withhold::Drain { within: None } => {
            format!("{address} claims nothing more, and is drained when what it runs ({n}) has ended")
        }
        Withhold::Drain { within: Some(limit) } => format!(
            "{address} claims nothing more; what it runs ({n}) has {} to end, then it is ended and runs elsewhere",
            span(limit)
        ),
    };
    if !node.open && order != Withhold::Resume {
        what.push_str("; it has no open session: its next agent claims nothing until it is resumed");
    }
    let again = node.in_use() > 0 && matches!(order, Withhold::Drain { within: Some(_) });
    Ok(Answer {
        what,
        twice: again.then(|| "what is ended at the deadline starts again from its beginning".to_owned()),
        ..Answer::default()
    })
}

async fn release(acting: &Acting, action: &Release, who: &str, commit: bool) -> Result<Answer, Refusal> {
    let db = acting.db();
    let Release {
        node: address,
        session,
        confirm,
    } = action;
    let node = leased(db, address).await?;
    let danger = release_danger(&node);
    if commit && confirm.as_ref() != Some(address) {
        return Err(
            Refusal::refused(format!("the lease of {address} was not released"))
                .why(danger)
                .next("if you know that the node's processes are dead, confirm with the node's address"),
        );
    }
    let runs = if commit {
        release_lease(acting, address, session.unwrap_or(node.session), who).await?
    } else {
        Vec::new()
    };
    Ok(Answer {
        what: format!(
            "the lease of {address} ends, and what it held ({}) may start elsewhere at once",
            counted(node.in_use())
        ),
        twice: Some(danger),
        runs,
        ..Answer::default()
    })
}

async fn resize(acting: &Acting, name: &str, size: u32, who: &str, commit: bool) -> Result<Answer, Refusal> {
    let db = acting.db();
    if size > POOL {
        return Err(Refusal::usage(format!("a pool has {POOL} places at most")));
    }
    let pool = reading::pool(db, name).await?;
    let pool = pool.ok_or_else(|| nodes::no_pool(name))?;
    if commit && !set_pool(acting, name, size, who).await? {
        return Err(nodes::no_pool(name));
    }
    let mut what = format!(
        "{name}: {size} places instead of {}; {} are taken, {} runs wait",
        pool.size,
        pool.in_use + pool.on_nodes.values().sum::<i64>(),
        pool.waiting
    );
    if size != pool.file_size {
        let (source, file_size) = (&pool.source, pool.file_size);
        what.push_str(&format!(
            "; {source} says {file_size}: this size stays until the file has another"
        ));
    }
    Ok(what.into())
}

async fn test(acting: &Acting, name: &str, who: &str, commit: bool) -> Result<Answer, Refusal> {
    let db = acting.db();
    let known = notify::targets(db).await?;
    let spec = (known.iter().find(|target| target.name == name)).and_then(|target| target.spec.as_ref());
    let spec = spec.ok_or_else(|| {
        Refusal::not_found(format!("there is no target {name}")).next(format!(
            "`farmhand notify ls` shows the targets; [notify.{name}] in a job file makes one"
        ))
    })?;
    let notifications = match commit {
        true => notify::submit_test(acting, name, spec, who).await?,
        false => Vec::new(),
    };
    Ok(Answer {
        what: format!("an agent sends a test message to {name}"),
        notifications,
        ..Answer::default()
    })
}
