//! `farmhand import crontab`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use farmhand_core::definition::DstPolicy;
use farmhand_core::schedule::{ParseContext, Schedule};
use farmhand_import::crontab::{self, File, Owner, Place};
use farmhand_import::{Import, Imported, Machine};
use jiff::Timestamp;

use super::hosts;
use super::{Failure, Outcome, Progress, Target, home, out, text_of, zone};

#[derive(Args, Debug)]
pub(super) struct CrontabArgs {
    /// Crontabs; - is standard input
    #[arg(required_unless_present = "hosts")]
    file: Vec<PathBuf>,
    /// The node whose crontabs they are: their jobs run there and nowhere else
    #[arg(long, value_name = "NODE")]
    host: Option<String>,
    /// Instead of files, the crontabs of many nodes: DIR/NODE holds a node's files at their paths, as
    /// DIR/NODE/etc/cron.d/backup, or is its crontab. A line that several nodes have becomes one job that runs on each of them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "host"])]
    hosts: Option<PathBuf>,
    /// Their jobs run on each node
    #[arg(long, conflicts_with_all = ["host", "hosts"])]
    each_node: bool,
    /// They have a user before the command, as /etc/crontab and /etc/cron.d/* [default: where a path ends so]
    #[arg(long, conflicts_with = "user")]
    system: bool,
    /// The user whose crontab it is
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Lines may have six and seven fields, as supercronic's and Quartz's: seconds first, a year last
    #[arg(long)]
    seconds: bool,
    /// The zone of cron's clock, where no CRON_TZ names one [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub(super) fn run(args: &CrontabArgs, as_json: bool) -> Outcome {
    let files = read_all(args)?;
    let timezone = zone(args.tz.as_deref())?;
    let machine = Machine {
        timezone: &timezone,
        home: &home,
    };
    let import = crontab::import(&files, &machine);
    hint(&import, &files);
    args.target.take(import, Some(line_times), as_json)
}

fn read_all(args: &CrontabArgs) -> Result<Vec<File>, Failure> {
    let place = match &args.host {
        Some(host) => Place::Node(host.clone()),
        None if args.each_node => Place::EachNode,
        None => Place::Any,
    };
    let paths = match &args.hosts {
        Some(dir) => hosts::crontabs(dir)?,
        None => (args.file.iter())
            .map(|path| (path.clone(), place.clone()))
            .collect(),
    };
    let mut files = Vec::new();
    let mut progress = Progress::default();
    let mut roots = BTreeSet::new();
    for (nth, (path, place)) in paths.iter().enumerate() {
        progress.say(|_| format!("reading {}, {nth} of {} files", path.display(), paths.len()));
        let mut notes = Vec::new();
        if hosts::is_ignored(path) {
            let why = "Debian's cron ignores a file of cron.d whose name has anything but letters, digits, _ and -; cronie reads it";
            if args.hosts.is_some() || paths.len() > 1 {
                out::note(&format!(
                    "{}: not imported: {why}; name it alone if cron runs it",
                    path.display()
                ));
                continue;
            }
            notes.push(why.to_owned());
        }
        let here = args.hosts.is_none().then_some(Path::new("/"));
        if let Some(root) = hosts::root(path).or(here)
            && roots.insert(root)
        {
            let given = "cron gives that to its commands";
            notes.extend(hosts::environment(root, &hosts::ENVIRONMENTS, given));
        }
        files.push(File {
            name: path.display().to_string(),
            text: text_of(path)?,
            owner: owner(path, args),
            place: place.clone(),
            seconds: args.seconds,
            notes,
        });
    }
    Ok(files)
}

fn owner(path: &Path, args: &CrontabArgs) -> Owner {
    let said = match (args.system, &args.user) {
        (true, _) => Some(Owner::System),
        (false, user) => user.clone().map(|user| Owner::User(Some(user))),
    };
    let by_path = hosts::owner(path);
    // A host has files of several kinds. Of a file that is named, who names it knows best.
    let known = match args.hosts {
        Some(_) => by_path.or(said),
        None => said.or(by_path),
    };
    known.unwrap_or(Owner::User(None))
}

/// Says which crontabs look like a system's and were not read as such.
fn hint(import: &Import, files: &[File]) {
    for (report, file) in import.files.iter().zip(files) {
        if matches!(file.owner, Owner::User(_)) && report.jobs > 0 && looks_like_system(file) {
            out::note(&format!(
                "{}: every command begins with a user's name; if this is a system crontab, import it with --system",
                report.file
            ));
        }
    }
}

fn looks_like_system(file: &File) -> bool {
    let mut commands = crontab::parse(&file.text, false, file.seconds)
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

/// When cron fires the line; None where it refuses it.
fn line_times(line: &Imported, now: Timestamp, count: u32) -> Option<Vec<Timestamp>> {
    let context = ParseContext {
        job: &line.name,
        timezone: &line.timezone,
        dst: DstPolicy::Once,
        ..ParseContext::default()
    };
    let times = Schedule::parse(&[line.expression()?], &context)
        .map(|schedule| schedule.iter_after(now).take(count as usize).collect());
    Some(times.unwrap_or_default())
}
