//! `farmhand import systemd`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use farmhand_import::Machine;
use farmhand_import::systemd::{self, File, Timer};

use super::{Failure, Outcome, Target, home, hosts, text_of, zone};

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

/// Where the locale of the services is: the first that says any.
const LOCALES: [&str; 2] = ["etc/locale.conf", "etc/default/locale"];

pub(super) fn run(args: &SystemdArgs, as_json: bool) -> Outcome {
    let timezone = zone(args.tz.as_deref())?;
    let machine = Machine {
        timezone: &timezone,
        home: &home,
    };
    let (mut timers, mut roots) = (Vec::new(), BTreeSet::new());
    for (path, others) in paths(&args.file)? {
        let (unit, places) = (unit_name(&path), places(&path, &args.file));
        // Of a link in a *.wants directory the name counts alone. In a copy of a machine's files any link may lead to where its file
        // was on that machine.
        let own = || Some(path.clone()).filter(|path| path.exists());
        let found = || find(&unit, &places, &[]);
        let text = match is_wants(path.parent().unwrap_or(Path::new(""))) {
            true => found().or_else(own),
            false => own().or_else(found),
        };
        let text = text.unwrap_or_else(|| path.clone());
        let mut timer = file(&text, &unit, &places)?;
        // Of a checkout nothing is known of its machine.
        let root = hosts::root(&path).or(is_of_system(&path).then_some(Path::new("/")));
        if let Some(root) = root
            && roots.insert(root.to_owned())
        {
            let locales = hosts::environment(root, &LOCALES, "systemd gives that to services");
            timer.notes.extend(locales.into_iter().next());
        }
        timer.notes.extend(
            others
                .iter()
                .map(|other| format!("{} is not read: this one comes before it", other.display())),
        );
        // One that is masked or a template becomes no job.
        let may_be = !timer.text.is_empty() && !timer.unit.ends_with("@.timer");
        if may_be && !is_wanted(&timer.unit, &places) {
            timer.notes.push(
                "no *.wants directory beside it names it: where it is disabled, write enabled = false into its job, or take the job out"
                    .to_owned(),
            );
        }
        let name = systemd::service_of(&timer);
        let service = find(&name, &places, &args.file);
        timers.push(Timer {
            service: service.map(|path| file(&path, &name, &places)).transpose()?,
            timer,
        });
    }
    let import = systemd::import(&timers, &machine, &args.user);
    args.target.take(import, None, as_json)
}

/// The file of each timer, and others of the same name that it hides.
type Paths = Vec<(PathBuf, Vec<PathBuf>)>;

fn paths(files: &[PathBuf]) -> Result<Paths, Failure> {
    let mut paths = Paths::new();
    for file in files {
        let failed = |error: std::io::Error| {
            Failure::usage(format!("{} cannot be read; nothing was written", file.display())).why(error)
        };
        let found = match file.is_dir() {
            true => timers_of(file).map_err(failed)?,
            // Services are read with the timers that start them.
            false if file.extension().is_some_and(|end| end == "service") => Vec::new(),
            false => vec![file.clone()],
        };
        found.into_iter().for_each(|path| add(&mut paths, path));
    }
    // A template runs as its instances.
    let instances: BTreeSet<String> = (paths.iter())
        .filter_map(|(path, _)| template(&unit_name(path)))
        .collect();
    paths.retain(|(path, _)| !instances.contains(&unit_name(path)));
    match paths.is_empty() {
        true => {
            Err(Failure::usage("there is no *.timer among these files").next("name one, or its directory"))
        }
        false => Ok(paths),
    }
}

/// The timers of a directory, and then the instances of templates that are enabled there: links in its *.wants.
fn timers_of(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut instances) = (Vec::new(), Vec::new());
    for entry in dir.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "timer") {
            found.push(path);
        } else if is_wants(&path) && path.is_dir() {
            let wanted = timers_of(&path)?.into_iter();
            instances.extend(wanted.filter(|path| template(&unit_name(path)).is_some()));
        }
    }
    found.sort();
    instances.sort();
    found.extend(instances);
    Ok(found)
}

fn is_wants(dir: &Path) -> bool {
    dir.extension()
        .is_some_and(|end| end == "wants" || end == "requires")
}

/// The directory of units that a unit lies in, or a link to it in one of that directory's *.wants.
fn dir_of(unit: &Path) -> &Path {
    let parent = unit.parent().unwrap_or(Path::new(""));
    match is_wants(parent) {
        true => parent.parent().unwrap_or(Path::new("")),
        false => parent,
    }
}

/// `backup@home.timer` → `backup@.timer`.
fn template(unit: &str) -> Option<String> {
    let (prefix, rest) = unit.split_once('@')?;
    let (instance, kind) = rest.rsplit_once('.')?;
    (!instance.is_empty()).then(|| format!("{prefix}@.{kind}"))
}

/// Of timers of one name the first counts: in systemd's own directories by their order, elsewhere by that of the arguments.
fn add(paths: &mut Paths, path: PathBuf) {
    let name = unit_name(&path);
    let first = match is_of_system(&path) {
        true => UNITS
            .iter()
            .map(|dir| Path::new(dir).join(&name))
            .find(|first| first.exists()),
        false => None,
    };
    let first = first.unwrap_or_else(|| path.clone());
    let at = paths.iter().position(|(known, _)| unit_name(known) == name);
    if at.is_some() && dir_of(&path) != path.parent().unwrap_or(Path::new("")) {
        return;
    }
    let at = at.unwrap_or_else(|| {
        paths.push((first, Vec::new()));
        paths.len() - 1
    });
    let (first, others) = &mut paths[at];
    let same = |other: &PathBuf| other.canonicalize().ok() == path.canonicalize().ok();
    if !same(first) && !others.iter().any(same) {
        others.push(path);
    }
}

fn is_of_system(path: &Path) -> bool {
    UNITS.iter().any(|dir| dir_of(path) == Path::new(dir))
}

fn unit_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Where what belongs to a timer is looked for: systemd's own directories, or those that were named; the first counts.
fn places(timer: &Path, named: &[PathBuf]) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = match is_of_system(timer) {
        true => UNITS.iter().map(PathBuf::from).collect(),
        false => Vec::new(),
    };
    let beside = dir_of(timer).to_owned();
    let dirs = named.iter().filter(|path| path.is_dir());
    if !places.contains(&beside) && !dirs.clone().any(|dir| *dir == beside) {
        places.push(beside);
    }
    places.extend(dirs.cloned());
    places
}

/// The directories of a unit's drop-ins, as systemd.unit(5) has them: of the unit and its template, of what its name begins with up to
/// a dash, and of all units of its kind.
fn drop_ins(unit: &str) -> Vec<String> {
    let mut names = Vec::new();
    for name in [Some(unit.to_owned()), template(unit)].into_iter().flatten() {
        let end = name.find('@').or_else(|| name.rfind('.')).unwrap_or(name.len());
        let (prefix, rest) = name.split_at(end);
        let dashes = prefix.match_indices('-');
        names.extend(dashes.map(|(at, _)| format!("{}{rest}.d", &prefix[..=at])));
        names.push(format!("{name}.d"));
    }
    names.extend(unit.rsplit_once('.').map(|(_, kind)| format!("{kind}.d")));
    names
}

fn file(path: &Path, unit: &str, places: &[PathBuf]) -> Result<File, Failure> {
    let names: BTreeSet<String> = [unit, &unit_name(path)].into_iter().flat_map(drop_ins).collect();
    let drop_ins = |place: &PathBuf| {
        // `systemctl set-property` writes there.
        let control = place
            .ends_with("systemd/system")
            .then(|| place.with_file_name("system.control"));
        let places = [Some(place.clone()), control].into_iter().flatten();
        let dirs = places.flat_map(|place| names.iter().map(move |name| place.join(name)));
        dirs.filter(|dir| dir.is_dir()).collect::<Vec<_>>()
    };
    let mut seen = BTreeSet::new();
    let drop_ins = (places.iter().flat_map(drop_ins)).filter(|dir| seen.insert(dir.canonicalize().ok()));
    Ok(File {
        name: path.display().to_string(),
        unit: unit.to_owned(),
        text: text_of(path)?,
        notes: drop_ins
            .map(|dir| {
                format!(
                    "drop-ins are not read: what {} changes is missing here",
                    dir.display()
                )
            })
            .collect(),
    })
}

/// Whether a unit there starts it: an enabled timer has a link in timers.target.wants.
fn is_wanted(timer: &str, places: &[PathBuf]) -> bool {
    let wants = |place: &PathBuf| {
        let here = place.as_os_str().is_empty();
        let place = if here { Path::new(".") } else { place };
        let entries = place.read_dir().into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .any(|dir| is_wants(&dir) && dir.join(timer).symlink_metadata().is_ok())
    };
    places.iter().any(wants)
}

/// The unit's file, or its template's.
fn find(unit: &str, places: &[PathBuf], named: &[PathBuf]) -> Option<PathBuf> {
    let names = [Some(unit.to_owned()), template(unit)];
    names.iter().flatten().find_map(|name| {
        let given = named.iter().find(|path| unit_name(path) == *name).cloned();
        given.or_else(|| places.iter().map(|dir| dir.join(name)).find(|path| path.exists()))
    })
}
