//! `farmhand import`: what other schedulers did, as job files.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use farmhand_core::crontab::{self, File, Import, Imported, Machine, Owner};
use farmhand_core::definition::{DstPolicy, load};
use farmhand_core::document::Source;
use farmhand_core::due;
use farmhand_core::schedule::{ParseContext, Schedule};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::progress::Progress;
use super::{Exit, Failure, Outcome, out};

#[derive(Args, Debug)]
pub struct ImportArgs {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand, Debug)]
enum From {
    /// Crontabs become one commented job file; what cannot be carried over is listed
    Crontab(CrontabArgs),
}

#[derive(Args, Debug)]
struct CrontabArgs {
    /// Crontabs; - is standard input
    #[arg(required = true)]
    file: Vec<PathBuf>,
    /// They have a user before the command, as /etc/crontab and /etc/cron.d [default: by those paths]
    #[arg(long, conflicts_with = "user")]
    system: bool,
    /// The user whose crontab it is
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Where the job file goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over a file that this command did not make
    #[arg(long)]
    force: bool,
    /// The zone of cron's clock, where no CRON_TZ names one [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Write no file; show when each line and its job fire next
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run, how many times of each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
}

pub fn run(args: &ImportArgs, as_json: bool) -> Outcome {
    let From::Crontab(args) = &args.from;
    let files = read_all(args)?;
    let timezone = match &args.tz {
        Some(zone) if TimeZone::get(zone).is_err() => {
            return Err(Failure::usage(format!("--tz {zone:?} is not a valid time zone"))
                .next("write one such as Europe/Berlin"));
        }
        Some(zone) => zone.clone(),
        None => local_zone(),
    };
    let machine = Machine {
        timezone: &timezone,
        home: &home,
    };
    let import = crontab::import(&files, &machine);
    report(&import, &files);
    if args.dry_run {
        return preview(&import, args.count, as_json);
    }
    if let Some(path) = &args.output {
        write(path, &import.toml, args.force)?;
        out::note(&format!("{}: {} jobs", path.display(), import.jobs.len()));
    }
    if as_json {
        let text = args.output.is_none().then_some(&import.toml);
        out::json(&json!({"jobs": import.jobs, "files": import.files, "output": args.output, "toml": text}));
    } else if args.output.is_none() {
        out::raw(import.toml.as_bytes());
    }
    Ok(Exit::Ok)
}

fn read_all(args: &CrontabArgs) -> Result<Vec<File>, Failure> {
    let mut files = Vec::new();
    let mut progress = Progress::default();
    for (nth, path) in args.file.iter().enumerate() {
        progress.say(|_| format!("reading {}, {nth} of {} files", path.display(), args.file.len()));
        let bytes = read(path).map_err(|error| {
            Failure::usage(format!("{} cannot be read; nothing was written", path.display())).why(error)
        })?;
        let text = String::from_utf8(bytes).unwrap_or_else(|error| {
            out::note(&format!(
                "{}: not all of it is UTF-8; other bytes are shown as \u{fffd}",
                path.display()
            ));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        files.push(File {
            name: path.display().to_string(),
            text,
            owner: owner(path, args),
        });
    }
    Ok(files)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn owner(path: &Path, args: &CrontabArgs) -> Owner {
    let by_path = path == Path::new("/etc/crontab") || path.starts_with("/etc/cron.d");
    if args.system || (by_path && args.user.is_none()) {
        Owner::System
    } else {
        Owner::User(args.user.clone())
    }
}

fn local_zone() -> String {
    let zone = TimeZone::try_system().ok();
    match zone.as_ref().and_then(TimeZone::iana_name) {
        Some(name) => name.to_owned(),
        None => {
            out::note("this machine's time zone has no name, so UTC is taken; --tz names another one");
            "UTC".to_owned()
        }
    }
}

/// From /etc/passwd; users of a directory service are unknown.
fn home(user: &str) -> Option<String> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(4).map(str::to_owned))?
    })
}

/// What did not become a job, and what became a different one, on stderr.
fn report(import: &Import, files: &[File]) {
    for (report, file) in import.files.iter().zip(files) {
        for bad in &report.invalid {
            out::note(&out::printable(&format!(
                "{}:{}:{}: not imported: {}; {}",
                report.file, bad.line, bad.column, bad.problem, bad.mend
            )));
        }
        for note in &report.notes {
            out::note(&out::printable(&format!(
                "{}:{}: {}",
                report.file, note.line, note.text
            )));
        }
        let jobs: Vec<_> = import.jobs.iter().filter(|job| job.file == report.file).collect();
        if matches!(file.owner, Owner::User(_)) && !jobs.is_empty() && looks_like_system(file) {
            out::note(&format!(
                "{}: every command begins with a user's name; if this is a system crontab, import it with --system",
                report.file
            ));
        }
    }
}

fn looks_like_system(file: &File) -> bool {
    let mut commands = crontab::parse(&file.text, false)
        .into_iter()
        .filter_map(|line| match line {
            crontab::Line::Task(task) => Some(task.command),
            _ => None,
        });
    commands.all(|command| {
        let word = command.split_whitespace().next().unwrap_or_default();
        word == "root" || home(word).is_some()
    })
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let before = std::fs::read_to_string(path);
    let own = match &before {
        Ok(text) => text.is_empty() || text.starts_with(crontab::HEADER),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !own && !force {
        return Err(Failure::new(
            Exit::Refused,
            format!("{} exists, and this command did not make it", path.display()),
        )
        .next("choose another file, or add --force"));
    }
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Error, format!("{} cannot be written", path.display())).why(error)
    };
    let mut file = std::fs::File::create(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

/// The next times of the crontab's line and of the job that was made of it, side by side.
fn preview(import: &Import, count: u32, as_json: bool) -> Outcome {
    let source = Source {
        name: "imported".to_owned(),
        text: import.toml.clone(),
    };
    let jobs = load(&[source]).map_err(|mistakes| {
        Failure::new(
            Exit::Error,
            "the job file that was made cannot be applied; this is a defect worth reporting",
        )
        .why(mistakes)
    })?;
    let now = Timestamp::now();
    let mut list = Vec::new();
    let mut rows = Vec::new();
    for imported in &import.jobs {
        let cron = line_times(imported, now, count);
        let job: Vec<Timestamp> = match jobs.iter().find(|job| job.name == imported.name) {
            Some(job) => {
                let (schedule, policy) = due::compile(&job.name, &job.spec)
                    .map_err(|error| Failure::new(Exit::Error, format!("job {}", job.name)).why(error))?;
                let next = |after: &Timestamp| due::next_run(&schedule, &policy, *after);
                std::iter::successors(next(&now), next)
                    .take(count as usize)
                    .collect()
            }
            None => Vec::new(),
        };
        let shown = |times: &[Timestamp]| match (times, imported.never) {
            ([], true) => "never".to_owned(),
            ([], false) => "at boot".to_owned(),
            (times, _) => times
                .iter()
                .map(|at| out::time(*at))
                .collect::<Vec<_>>()
                .join(", "),
        };
        rows.push(vec![
            format!("{}:{}", imported.file, imported.line),
            imported.name.clone(),
            imported.schedule.clone(),
            imported.timezone.clone(),
            shown(&cron),
            if cron == job {
                "the same".to_owned()
            } else {
                shown(&job)
            },
        ]);
        list.push(
            json!({"name": imported.name, "file": imported.file, "line": imported.line,
            "schedule": imported.schedule, "timezone": imported.timezone, "cron": cron, "farmhand": job}),
        );
    }
    if as_json {
        out::json(&json!({"jobs": list, "files": import.files}));
    } else {
        out::table(&["LINE", "JOB", "SCHEDULE", "ZONE", "CRON", "FARMHAND"], rows);
        out::note("nothing was written: --dry-run");
    }
    Ok(Exit::Ok)
}

/// When cron fires the line.
fn line_times(line: &Imported, now: Timestamp, count: u32) -> Vec<Timestamp> {
    let context = ParseContext {
        job: &line.name,
        timezone: &line.timezone,
        dst: DstPolicy::Once,
        ..ParseContext::default()
    };
    Schedule::parse(&[line.expression()], &context)
        .map(|schedule| schedule.iter_after(now).take(count as usize).collect())
        .unwrap_or_default()
}
