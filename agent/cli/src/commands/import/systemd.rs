//! `farmhand import systemd`.

use std::path::{Path, PathBuf};

use clap::Args;
use farmhand_core::import::Machine;
use farmhand_core::systemd::{self, File, Timer};

use super::{Failure, Outcome, Target, home, out, text_of, zone};

#[derive(Args, Debug)]
pub(super) struct SystemdArgs {
    /// Timers; of a directory all *.timer in it. Their services lie beside them, or are named too
    #[arg(required = true)]
    file: Vec<PathBuf>,
    /// Whom the services run as where they do not say it; empty for the agent's own user
    #[arg(long, value_name = "NAME", default_value = "root")]
    user: String,
    /// The zone of the machine's clock, where OnCalendar= names none [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Where systemd looks for units, the first one first.
const UNITS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

pub(super) fn run(args: &SystemdArgs, as_json: bool) -> Outcome {
    let timezone = zone(args.tz.as_deref())?;
    let machine = Machine {
        timezone: &timezone,
        home: &home,
    };
    let mut timers = Vec::new();
    for path in paths(&args.file)? {
        let timer = file(&path, &unit_name(&path))?;
        let name = systemd::service_of(&timer);
        let service = find(&name, &path, &args.file);
        timers.push(Timer {
            service: service.map(|path| file(&path, &name)).transpose()?,
            timer,
        });
    }
    let import = systemd::import(&timers, &machine, &args.user);
    args.target.take(import, None, as_json)
}

fn paths(files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for file in files {
        let failed = |error: std::io::Error| {
            Failure::usage(format!("{} cannot be read; nothing was written", file.display())).why(error)
        };
        if !file.is_dir() {
            // Services are read with the timers that start them.
            if file.extension().is_none_or(|end| end != "service") {
                paths.push(file.clone());
            }
            continue;
        }
        let mut found = Vec::new();
        for entry in file.read_dir().map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|end| end == "timer") {
                found.push(path);
            }
        }
        found.sort();
        paths.extend(found);
    }
    match paths.is_empty() {
        true => {
            Err(Failure::usage("there is no *.timer among these files").next("name one, or its directory"))
        }
        false => Ok(paths),
    }
}

fn unit_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn file(path: &Path, unit: &str) -> Result<File, Failure> {
    let drop_ins = path.with_file_name(format!("{}.d", unit_name(path)));
    if drop_ins.is_dir() {
        out::note(&format!("{}: drop-ins are not read", drop_ins.display()));
    }
    Ok(File {
        name: path.display().to_string(),
        unit: unit.to_owned(),
        text: text_of(path)?,
    })
}

/// The service's file, or its template's.
fn find(service: &str, timer: &Path, named: &[PathBuf]) -> Option<PathBuf> {
    let template = service
        .split_once('@')
        .map(|(prefix, _)| format!("{prefix}@.service"));
    let beside = timer.parent().unwrap_or(Path::new("."));
    let mut places: Vec<&Path> = vec![beside];
    places.extend(named.iter().filter(|path| path.is_dir()).map(PathBuf::as_path));
    if UNITS.iter().any(|dir| beside == Path::new(dir)) {
        places.extend(UNITS.iter().map(Path::new));
    }
    let names = [Some(service.to_owned()), template];
    names.iter().flatten().find_map(|name| {
        let given = named.iter().find(|path| unit_name(path) == *name).cloned();
        given.or_else(|| {
            places
                .iter()
                .map(|dir| dir.join(name))
                .find(|path| path.is_file())
        })
    })
}
