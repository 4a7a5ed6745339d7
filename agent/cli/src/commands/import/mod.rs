//! `farmhand import`: what other schedulers did, as job files.

mod crontab;
mod hosts;
mod k8s;
mod systemd;
mod values;
mod verify;

use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use farmhand_core::definition::load;
use farmhand_core::document::Source;
use farmhand_core::due;
use farmhand_import::{Import, Imported, is_unedited};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::progress::Progress;
use super::runtime::block_on;
use super::{Exit, Failure, Outcome, out};

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand, Debug)]
enum From {
    /// Crontabs become one commented job file; what cannot be carried over is listed
    Crontab(crontab::CrontabArgs),
    /// systemd's timers with their services become one commented job file; what cannot be carried over is listed
    Systemd(systemd::SystemdArgs),
    /// Kubernetes' CronJobs become one commented job file; what cannot be carried over is listed
    K8s(k8s::K8sArgs),
    /// Hold what cron and timers did, by the machines' logs, against what jobs with observe = true would have done; exit code 14 if they differ
    Verify(verify::VerifyArgs),
}

/// Where the job file goes, and whether it is written at all.
#[derive(Args, Debug)]
struct Target {
    /// Where the job file goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The file's jobs observe: the farm records when each would run, and executes nothing
    #[arg(long)]
    observe: bool,
    /// Write over a file that this command did not make, or that was edited since
    #[arg(long)]
    force: bool,
    /// Write no file; show when each job fires next
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run, how many times of each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
}

/// When the other scheduler fires what became a job; None where it does not take it.
type Times = fn(&Imported, Timestamp, u32) -> Option<Vec<Timestamp>>;

pub(super) fn run(args: &ImportArgs, as_json: bool) -> Outcome {
    match &args.from {
        From::Crontab(args) => crontab::run(args, as_json),
        From::Systemd(args) => systemd::run(args, as_json),
        From::K8s(args) => k8s::run(args, as_json),
        From::Verify(args) => block_on(verify::run(args, as_json)),
    }
}

impl Target {
    /// Says what was not carried over, then writes the file or shows when its jobs fire.
    fn take(&self, mut import: Import, times: Option<Times>, as_json: bool) -> Outcome {
        if self.observe {
            import.observe();
        }
        let import = &import;
        report(import);
        if self.dry_run {
            return preview(import, self.count, times, as_json);
        }
        let output = self.output.as_ref().filter(|_| !import.jobs.is_empty());
        if let Some(path) = output {
            write(path, import, self.force)?;
            out::note(&format!(
                "{}: {}",
                path.display(),
                out::count(import.jobs.len(), "job")
            ));
        }
        if as_json {
            let text = self.output.is_none().then_some(&import.toml);
            out::json(&json!({"jobs": import.jobs, "files": import.files, "output": output, "toml": text}));
        } else if self.output.is_none() {
            out::raw(import.toml.as_bytes());
        }
        if self.output.is_none() && !import.secrets.is_empty() {
            out::note("the values of its secrets are in no file: with -o FILE they are written beside it");
        }
        if import.jobs.is_empty() {
            let failure = Failure::refused("no job was imported");
            let failure = match &self.output {
                Some(path) => failure.why(format!("{} was not written", path.display())),
                None => failure,
            };
            return Err(failure.next("read what is said above of each file"));
        }
        Ok(Exit::Ok)
    }
}

/// The text of a file or of standard input.
fn text_of(path: &Path) -> Result<String, Failure> {
    let bytes = read(path).map_err(|error| {
        Failure::usage(format!("{} cannot be read; nothing was written", path.display())).why(error)
    })?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
        out::note(&format!(
            "{}: not all of it is UTF-8; other bytes are shown as \u{fffd}",
            path.display()
        ));
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    }))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The zone that is named, or this machine's.
fn zone(named: Option<&str>) -> Result<String, Failure> {
    match named {
        Some(zone) if TimeZone::get(zone).is_err() => {
            Err(Failure::usage(format!("--tz {zone:?} is not a valid time zone"))
                .next("write one such as Europe/Berlin"))
        }
        Some(zone) => Ok(zone.to_owned()),
        None => Ok(local_zone()),
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
fn report(import: &Import) {
    for report in &import.files {
        for bad in &report.invalid {
            out::note(&format!(
                "{}:{}:{}: not imported: {}; {}",
                report.file, bad.line, bad.column, bad.problem, bad.fix
            ));
        }
        for note in &report.notes {
            let place = match note.line {
                0 => report.file.clone(),
                line => format!("{}:{line}", report.file),
            };
            out::note(&format!("{place}: {}", note.text));
        }
    }
}

/// A file with a secret in it is its owner's alone.
fn write(path: &Path, import: &Import, force: bool) -> Result<(), Failure> {
    let before = std::fs::read_to_string(path);
    let own = match &before {
        Ok(text) => text.is_empty() || is_unedited(text),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !own && !force {
        return Err(Failure::refused(format!(
            "{} exists, and this command did not make it as it is",
            path.display()
        ))
        .why("what was edited in it would be lost")
        .next("choose another file and compare them, or add --force"));
    }
    let failed =
        |error: std::io::Error| Failure::broken(format!("{} cannot be written", path.display())).why(error);
    values::write(path, &import.secrets)?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if import.secret {
        options.mode(0o600);
    }
    let mut file = options.open(path).map_err(failed)?;
    if import.secret {
        // Also of one that was there.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))
            .map_err(failed)?;
        out::note(&format!(
            "{}: it holds what looks like a secret, so only its owner may read it",
            path.display()
        ));
    }
    file.write_all(import.toml.as_bytes()).map_err(failed)
}

/// The next times of each job, beside those of what it was made of where these are known.
fn preview(import: &Import, count: u32, times: Option<Times>, as_json: bool) -> Outcome {
    let source = Source {
        name: "imported".to_owned(),
        text: import.toml.clone(),
    };
    let jobs = load(&[source]).map_err(|mistakes| {
        Failure::broken("the job file that was made cannot be applied; this is a defect worth reporting")
            .why(mistakes)
    })?;
    let now = Timestamp::now();
    let mut list = Vec::new();
    let mut rows = Vec::new();
    for imported in &import.jobs {
        let job: Vec<Timestamp> = match jobs.iter().find(|job| job.name == imported.name) {
            Some(job) => {
                let (schedule, policy) = due::compile(&job.name, &job.spec)
                    .map_err(|error| Failure::broken(format!("job {}", job.name)).why(error))?;
                due::upcoming(&schedule, &policy, now, count as usize)
            }
            None => Vec::new(),
        };
        let cron = times.and_then(|times| times(imported, now, count));
        let shown = |times: &[Timestamp]| match (times, imported.never) {
            ([], true) => "never".to_owned(),
            ([], false) => "at boot".to_owned(),
            (times, _) => times
                .iter()
                .map(|at| out::time(*at))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let mut row = vec![
            format!("{}:{}", imported.file, imported.line),
            imported.name.clone(),
            imported.schedule.clone(),
            imported.timezone.clone(),
        ];
        row.extend(times.map(|_| cron.as_deref().map_or_else(String::new, shown)));
        row.push(match &cron {
            Some(cron) if *cron == job => "the same".to_owned(),
            _ => shown(&job),
        });
        rows.push(row);
        list.push(
            json!({"name": imported.name, "file": imported.file, "line": imported.line,
            "schedule": imported.schedule, "timezone": imported.timezone, "cron": cron, "farmhand": job}),
        );
    }
    if as_json {
        out::json(&json!({"jobs": list, "files": import.files}));
    } else {
        let cron = if times.is_some() { "|CRON" } else { "" };
        out::table(&format!("LINE|JOB|SCHEDULE|ZONE{cron}|FARMHAND"), rows);
        out::note("nothing was written: --dry-run");
    }
    Ok(Exit::Ok)
}
