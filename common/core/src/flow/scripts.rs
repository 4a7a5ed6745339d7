//! A directory of scripts becomes tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Action, Direction, Extras, Facilities, Header, Malformed, Task, lsb, numbered, rcorder};
use crate::graph::{Place, Reference, Relation};

/// A file that may be a task.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its file name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// What it says.
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
/// either is no task.
///
/// # Errors
/// Every header that cannot be read.
pub fn scripts(scripts: &[Script], selection: &Selection) -> Result<Vec<Task>, Vec<Malformed>> {
    let mut tasks = Vec::with_capacity(scripts.len());
    let mut wrong = Vec::new();
    let mut annotated = false;
    for script in scripts {
        match task(script, selection) {
            Ok(found) => tasks.extend(found.map(|(task, by_header)| {
                annotated |= by_header;
                task
            })),
            Err(malformed) => wrong.push(malformed),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    if !annotated {
        numbered::by_number(&mut tasks, selection.direction);
    }
    after_all(&mut tasks);
    Ok(tasks)
}

/// What its author may have meant otherwise: misspelt annotations, and numbers that count for nothing because not every
/// script has one, or because scripts have annotations.
pub fn doubtful(scripts: &[Script], selection: &Selection) -> Vec<Malformed> {
    let mut found: Vec<Malformed> = scripts
        .iter()
        .flat_map(|s| {
            let mut found = rcorder::misspelt(&s.path, &s.text, 1);
            found.extend(lsb::misspelt(&s.path, &s.text));
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
    let unused = tasks().find(|(script, by_header)| !by_header && numbered(script));
    if let (false, Some((script, _))) = (ordered, unused) {
        found.push(Malformed {
            at: Place {
                file: script.path.as_str().into(),
                line: 1,
            },
            what: "the numbers in the names are not used: not all scripts are numbered, or some have annotations".to_owned(),
            fix: "number all of them, or annotate all of them".to_owned(),
        });
    }
    found
}

/// The task, and whether the script says itself what it comes after.
fn task(script: &Script, selection: &Selection) -> Result<Option<(Task, bool)>, Malformed> {
    let file: Arc<str> = script.path.as_str().into();
    let at = Place {
        file: file.clone(),
        line: 1,
    };
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
    let action = Action::Script {
        path: file,
        executable: script.executable,
    };
    let header = header.unwrap_or_default();
    let mut task = Task::new(script.name.as_str(), at, action).described(header, selection);
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
        self.left_out = left_out(&header, selection);
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

fn left_out(header: &Header, selection: &Selection) -> Option<String> {
    if let Some(keyword) = header.keywords.iter().find(|k| selection.skip.contains(k)) {
        return Some(format!("it has the keyword {keyword}"));
    }
    if !selection.keep.is_empty() && !header.keywords.iter().any(|k| selection.keep.contains(k)) {
        return Some(format!("it has no keyword {}", selection.keep.join(" or ")));
    }
    let empty = |levels: &Option<Vec<String>>| levels.as_ref().is_some_and(Vec::is_empty);
    let some = |levels: &Option<Vec<String>>| levels.as_ref().is_some_and(|l| !l.is_empty());
    match selection.direction {
        // Starting all of init.d must not start `halt`.
        Direction::Start if empty(&header.start_levels) && some(&header.stop_levels) => {
            Some("its Default-Start is empty: it is for stopping".to_owned())
        }
        Direction::Stop if empty(&header.stop_levels) && some(&header.start_levels) => {
            Some("its Default-Stop is empty: it is not stopped".to_owned())
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
