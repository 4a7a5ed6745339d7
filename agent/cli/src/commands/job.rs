//! `farmhand job`: definitions, and what people do with them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use farmhand_core::definition::{Overlap, job_keys, parse_params};
use farmhand_store::Db;
use farmhand_store::reading::{self, JobItem, JobState, JobsFilter, every};

use super::apply::{self, ApplyArgs};
use super::export::ExportArgs;
use super::follow::{Follow, follow};
use super::{
    DatabaseArgs, Exit, Failure, Outcome, act, backfill, check, check_table, completion, diff, export, out,
    runs, sign, triggers,
};
use farmhand_control::actions::{DeleteJobs, Pause, Resume, Submit};
use farmhand_control::ask::{Job, Question};
use farmhand_control::jobs::{one, spec};

#[derive(Args, Debug)]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    command: JobCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum JobCommand {
    /// Check job files, show what they change, and store their jobs
    Apply(ApplyArgs),
    /// Check job files, without a database; exit code 2 if they have mistakes. Or propose a job for a table
    Check(check::CheckArgs),
    /// Sign the jobs of files, for nodes that execute only what a trusted key signed
    Sign(sign::SignArgs),
    /// What applying files would change, value by value; or what a revision changed
    Diff(diff::DiffArgs),
    /// All jobs
    #[command(alias = "list")]
    Ls,
    /// Delete jobs; their history stays
    #[command(aliases = ["delete", "remove"])]
    Rm {
        #[arg(required = true, add = completion::job_names())]
        name: Vec<String>,
        /// Delete without asking
        #[arg(long)]
        yes: bool,
    },
    /// Write jobs as a job file, with the pools and targets that they name
    Export(ExportArgs),
    /// One job: its definition, state and revisions
    Show {
        #[arg(add = completion::job_names())]
        name: String,
    },
    /// Run a job now
    Run(RunArgs),
    /// Stop a job's schedule; it can still be run by hand
    Pause {
        #[arg(add = completion::job_names())]
        name: String,
        /// Why, for the others
        #[arg(long)]
        reason: Option<String>,
    },
    /// Start a paused job's schedule again; what fell into the pause is recorded as skipped
    Resume {
        #[arg(add = completion::job_names())]
        name: String,
    },
    /// Make an earlier revision the present one, as a new revision
    Rollback(diff::RollbackArgs),
    /// Make runs for instants of the past that have none
    Backfill(backfill::BackfillArgs),
    /// A job's runs, the newest first
    History {
        #[arg(add = completion::job_names())]
        name: String,
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
}

#[derive(Args, Debug)]
struct RunArgs {
    #[arg(add = completion::job_names())]
    name: String,
    /// A parameter; may be repeated
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = super::job_files::pair)]
    param: Vec<(String, String)>,
    /// With the same key again, no second run is made and the first one is answered
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// What else of the job is live: run beside it, or only if there is nothing (skip), after it (queue), instead of it
    /// (replace)
    #[arg(long, value_name = "RULE", default_value = "allow",
        value_parser = PossibleValuesParser::new(Overlap::ALL.iter().filter(|rule| **rule != Overlap::Latest)
            .map(|word| word.as_str()))
            .try_map(|word| word.parse::<Overlap>()))]
    overlap: Overlap,
    #[command(flatten)]
    follow: Follow,
}

pub(super) async fn run(args: &JobArgs, as_json: bool) -> Outcome {
    if let JobCommand::Apply(apply) = &args.command {
        return apply::run(&args.database, apply, as_json).await;
    }
    if let JobCommand::Sign(args) = &args.command {
        return sign::run(args, as_json);
    }
    if let JobCommand::Check(check) = &args.command {
        return match &check.table {
            Some(table) => check_table::run(&args.database, table, as_json).await,
            None => check::run(check, as_json),
        };
    }
    let db = args.database.connect().await?;
    match &args.command {
        JobCommand::Apply(_) | JobCommand::Sign(_) | JobCommand::Check(_) => Ok(Exit::Ok),
        JobCommand::Diff(args) => diff::run(&db, args, as_json).await,
        JobCommand::Rollback(args) => diff::rollback(&db, args, as_json).await,
        JobCommand::Backfill(args) => backfill::run(&db, args, as_json).await,
        JobCommand::Ls => list(&db, as_json).await,
        JobCommand::Rm { name, yes } => {
            let action = DeleteJobs { job: name.clone() }.into();
            act::agreed(&db, action, *yes, as_json).await
        }
        JobCommand::Export(args) => export::run(&db, args, as_json).await,
        JobCommand::Show { name } => show(&db, name, as_json).await,
        JobCommand::Run(args) => submit(&db, args, as_json).await,
        JobCommand::Pause { name, reason } => {
            let (job, reason) = (name.clone(), reason.clone());
            act::run(&db, Pause { job, reason }, as_json).await
        }
        JobCommand::Resume { name } => act::run(&db, Resume { job: name.clone() }, as_json).await,
        JobCommand::History { name, limit } => history(&db, name, *limit, as_json).await,
    }
}

async fn list(db: &Db, as_json: bool) -> Outcome {
    let none = &JobsFilter::default();
    let jobs = every(|paging| async move { reading::jobs(db, none, &paging).await }).await?;
    if as_json {
        out::json(&jobs);
        return Ok(Exit::Ok);
    }
    let rows = jobs.items.iter().map(|job| {
        vec![
            job.job_id.clone(),
            job.health.to_string(),
            schedule(job),
            out::maybe_time(job.next_run),
            out::maybe_time(job.last_run_started),
            last_state(job),
            out::maybe(job.running_at()),
            job.source.clone(),
        ]
    });
    out::table_with_optional(
        "JOB|STATE|SCHEDULE|NEXT|LAST START|LAST STATE|RUNNING AT|SOURCE",
        rows,
        &["SOURCE", "LAST START", "RUNNING AT"],
    );
    Ok(Exit::Ok)
}

async fn show(db: &Db, name: &str, as_json: bool) -> Outcome {
    let detail = Job { job: name.to_owned() }.answer(db).await?;
    if as_json {
        out::json(&detail);
        return Ok(Exit::Ok);
    }
    let job = &detail.job;
    out::pairs(&[
        ("job", job.job_id.clone()),
        ("state", paused_by(job)),
        ("source", job.source.clone()),
        ("next run", out::maybe_time(job.next_run)),
        ("running at", out::maybe(job.running_at())),
        ("last start", out::maybe_time(job.last_run_started)),
        ("last end", out::maybe_time(job.last_finished)),
        ("last state", last_state(job)),
        ("last success", out::maybe_time(job.last_success)),
        ("runs", out::maybe(job.trigger_text.as_ref())),
        ("triggers", triggers::after(&detail.triggers)),
    ]);
    out::line("");
    let keys = job_keys(&detail.spec);
    keys.lines().for_each(out::line);
    out::line("");
    let rows = detail.revisions.iter().map(|revision| {
        vec![
            revision.rev.to_string(),
            out::time(revision.applied_at),
            revision.applied_by.clone(),
            revision.source.clone(),
        ]
    });
    out::table("REVISION|APPLIED|BY|FROM", rows);
    Ok(Exit::Ok)
}

async fn submit(db: &Db, args: &RunArgs, as_json: bool) -> Outcome {
    let job = one(db, &args.name).await?;
    let spec = spec(&job)?;
    let params = parse_params(&spec, &args.param).map_err(|errors| {
        let known: Vec<_> = spec.params.keys().map(String::as_str).collect();
        let failure = Failure::usage(format!("job {} does not take these parameters", args.name)).why(errors);
        if known.is_empty() {
            failure.next("run it without parameters")
        } else {
            failure.next(format!("its parameters are {}", known.join(", ")))
        }
    })?;
    let action = Submit {
        job: args.name.clone(),
        params,
        overlap: args.overlap,
    };
    let answer = act::act(db, action, args.idempotency_key.as_deref()).await?;
    follow(db, act::made(&answer), &args.follow, as_json).await
}

async fn history(db: &Db, name: &str, limit: i64, as_json: bool) -> Outcome {
    let args = runs::ListArgs {
        job: Some(name.to_owned()),
        limit,
        ..runs::ListArgs::default()
    };
    runs::list(db, &args, as_json).await
}

fn paused_by(job: &JobItem) -> String {
    let mut text = job.state.to_string();
    let paused = job.state == JobState::Paused;
    if let (true, Some(by), Some(at)) = (paused, &job.paused_by, job.paused_at) {
        text.push_str(&format!(" by {by} at {}", out::time(at)));
    }
    if let (true, Some(reason)) = (paused, &job.pause_reason) {
        text.push_str(&format!(": {reason}"));
    }
    text
}

fn last_state(job: &JobItem) -> String {
    match (&job.last_state, job.consecutive_failures) {
        (Some(state), n) if n > 1 => format!("{state} ({n} in a row)"),
        (state, _) => out::maybe(state.as_ref()),
    }
}

fn schedule(job: &JobItem) -> String {
    if job.schedule.is_empty() {
        return out::maybe(job.trigger_text.as_ref());
    }
    let mut text = job.schedule.join(", ");
    if job.timezone != "UTC" {
        text.push_str(&format!(" {}", job.timezone));
    }
    if let Some(after) = &job.trigger_text {
        text.push_str(&format!("; {after}"));
    }
    text
}
