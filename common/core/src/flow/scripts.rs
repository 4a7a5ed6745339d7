//! A directory of scripts becomes tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::facilities::Facilities;
use super::task::{Action, Direction, Extras, Header, Malformed, Task};
use super::{lsb, numbered, rcorder};
use crate::graph::{Place, Reference, Relation};

/// A file that may be a task.
#[derive(Clone, Debug)]
pub struct Script {
    pub name: String,
    pub path: String,
    pub text: String,
    /// Whether it can be executed itself.
    pub executable: bool,
}

/// Which scripts are executed, and for what.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Whether the flow starts or stops things.
    pub direction: Direction,
    /// Scripts with one of these keywords are left out.
    pub skip: Vec<String>,
    /// When not empty: scripts without any of these keywords are left out.
    pub keep: Vec<String>,
    /// What `$NAME` stands for.
    pub facilities: Facilities,
}

/// Tasks of all scripts that have annotations or can be executed, in the order given. A script without
/// either is no task. The names `S10x` and `K10x` say what a script is for, whatever its annotations say.
pub fn scripts(scripts: &[Script], selection: &Selection) -> Result<Vec<Task>, Vec<Malformed>> {
    let mut tasks = Vec::with_capacity(scripts.len());
    let mut wrong = Vec::new();
    let mut silent = Vec::with_capacity(scripts.len());
    for script in scripts {
        match task(script, selection) {
            Ok(found) => tasks.extend(found.map(|(task, by_header)| {
                silent.push(!by_header);
                task
            })),
            Err(malformed) => wrong.push(malformed),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    after_all(&mut tasks);
    if silent.iter().all(|silent| *silent) {
        numbered::by_number(&mut tasks, selection.direction);
    } else {
        numbered::where_silent(&mut tasks, &silent, selection.direction);
    }
    Ok(tasks)
}

/// What its author may have meant otherwise: scripts without the run bit, misspelt annotations, and numbers that count for
/// nothing because not every script has one, or because scripts have annotations.
pub fn doubtful(scripts: &[Script], selection: &Selection) -> Vec<Malformed> {
    let mut found: Vec<Malformed> = scripts
        .iter()
        .flat_map(|s| {
            let mut found = rcorder::misspelt(&s.path, &s.text, 1);
            found.extend(lsb::misspelt(&s.path, &s.text));
            if !s.executable && is_script(s, selection) {
                found.push(Malformed {
                    at: Place::new(s.path.as_str(), 1),
                    what: "it has no run bit and is left out".to_owned(),
                    fix: format!("chmod +x {}", s.path),
                });
            }
            found
        })
        .collect();
    let tasks = || {
        scripts
            .iter()
            .filter_map(|s| Some((s, task(s, selection).ok()??.1)))
    };
    let numbered = |script: &Script| numbered::is_numbered(&script.name);
    let ordered = tasks().all(|(script, by_header)| !by_header && numbered(script));
    let chosen = tasks().all(|(script, _)| numbered::letter(&script.name).is_some());
    let unused = tasks().find(|(script, by_header)| !by_header && numbered(script));
    if let (false, Some((script, _))) = (ordered || chosen, unused) {
        found.push(Malformed {
            at: Place::new(script.path.as_str(), 1),
            what: "the numbers in the names are not used: not all scripts are numbered, or some have annotations".to_owned(),
            fix: "number all of them, or annotate all of them".to_owned(),
        });
    }
    found
}

/// Whether somebody meant it to be executed: a page to read beside scripts is not told of.
fn is_script(script: &Script, selection: &Selection) -> bool {
    let annotated = || matches!(task(script, selection), Ok(Some(_)));
    script.text.starts_with("#!") || numbered::is_numbered(&script.name) || annotated()
}

/// The task, and whether the script says itself what it comes after.
fn task(script: &Script, selection: &Selection) -> Result<Option<(Task, bool)>, Malformed> {
    let file: Arc<str> = script.path.as_str().into();
    let at = Place::new(file.clone(), 1);
    let rcorder = rcorder::header(&file, &script.text, 1);
    let by_rcorder = rcorder.as_ref().is_some_and(Header::orders);
    let lsb = match by_rcorder {
        true => None,
        false => lsb::header(&file, &script.text, &selection.facilities)?,
    };
    let by_header = by_rcorder || lsb.is_some();
    let header = match (lsb, rcorder) {
        (Some(mut header), Some(more)) => {
            header.extend(more);
            Some(header)
        }
        (lsb, rcorder) => lsb.or(rcorder),
    };
    if header.is_none() && !script.executable {
        return Ok(None);
    }
    let header = header.unwrap_or_default();
    let left_out = left_out(script, &header, selection);
    let mut task =
        Task::new(script.name.as_str(), at, Action::Script { path: file }).described(header, selection);
    task.left_out = left_out;
    if !by_rcorder {
        // insserv knows a script by its file name as well, with and without the ending.
        let bare = script.name.strip_suffix(".sh").unwrap_or(&script.name);
        task.member.aliases = vec![script.name.clone()];
        if bare != script.name {
            task.member.aliases.push(bare.to_owned());
        }
    }
    Ok(Some((task, by_header)))
}

impl Task {
    /// With what its script or function says about itself.
    pub(super) fn described(mut self, header: Header, selection: &Selection) -> Self {
        self.left_out = by_keyword(&header, selection);
        if !header.locks.is_empty() {
            self.extras = Arc::new(Extras {
                locks: header.locks,
                ..Extras::default()
            });
        }
        self.member.provides = header.provides;
        self.keywords = header.keywords;
        self.member.references = match selection.direction {
            Direction::Start => header.start,
            Direction::Stop => header.stop,
        };
        self
    }
}

/// Without the run bit, by keywords, by the letter of its name, and where that has none by its run levels.
fn left_out(script: &Script, header: &Header, selection: &Selection) -> Option<String> {
    if !script.executable {
        return Some("it has no run bit".to_owned());
    }
    by_keyword(header, selection).or_else(|| match numbered::letter(&script.name) {
        Some(letter) => numbered::not_for(letter, selection.direction).map(str::to_owned),
        None => by_level(header, selection.direction).map(str::to_owned),
    })
}

fn by_keyword(header: &Header, selection: &Selection) -> Option<String> {
    if let Some(keyword) = header.keywords.iter().find(|k| selection.skip.contains(k)) {
        return Some(format!("it has the keyword {keyword}"));
    }
    let kept = selection.keep.is_empty() || header.keywords.iter().any(|k| selection.keep.contains(k));
    (!kept).then(|| format!("it has no keyword {}", selection.keep.join(" or ")))
}

fn by_level(header: &Header, direction: Direction) -> Option<&'static str> {
    let empty = |levels: &Option<Vec<String>>| levels.as_ref().is_some_and(Vec::is_empty);
    let some = |levels: &Option<Vec<String>>| levels.as_ref().is_some_and(|l| !l.is_empty());
    match direction {
        // Starting all of init.d must not start `halt`.
        Direction::Start if empty(&header.start_levels) && some(&header.stop_levels) => {
            Some("its Default-Start is empty: it is for stopping")
        }
        Direction::Stop if empty(&header.stop_levels) && some(&header.start_levels) => {
            Some("its Default-Stop is empty: it is not stopped")
        }
        _ => None,
    }
}

/// `$all` is every script that does not itself come after all.
fn after_all(tasks: &mut [Task]) {
    const ALL: &str = "$all";
    let wants = |t: &Task| t.member.references.iter().any(|r| r.name == ALL);
    let names: Vec<(String, BTreeSet<String>)> = tasks
        .iter()
        .filter(|t| !wants(t))
        .map(|t| {
            (
                t.name().to_owned(),
                t.member.provides.iter().map(|(n, _)| n.clone()).collect(),
            )
        })
        .collect();
    for task in tasks.iter_mut() {
        let (all, mut rest): (Vec<_>, Vec<_>) = std::mem::take(&mut task.member.references)
            .into_iter()
            .partition(|r| r.name == ALL && r.relation != Relation::Conflicts);
        for reference in all {
            let others = names.iter().map(|(name, provides)| Reference {
                name: provides.first().unwrap_or(name).clone(),
                optional: true,
                ..reference.clone()
            });
            rest.extend(others);
        }
        task.member.references = rest;
    }
}
