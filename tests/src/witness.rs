//! What the jobs of a test farm wrote down about themselves, and the check that no run ever had two lives.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// CLOCK_BOOTTIME in nanoseconds: the same for every process of this machine, whatever its wall clock says.
pub fn boot_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // The call itself, because a preloaded library may have its own idea of the time.
    // SAFETY: writes into `t`.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_BOOTTIME, &raw mut t) };
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Start,
    Beat,
    End,
    /// The lock of the run's own was held by another process.
    Clash,
}

/// One line of the witness file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at: u64,
    pub what: What,
    pub job: String,
    pub run: i64,
    pub attempt: i32,
    pub fence: i64,
    pub node: String,
    pub pid: i32,
    /// As handed to the command: RFC 3339.
    pub due: String,
}

/// One attempt's life as its own processes saw it.
#[derive(Clone, Debug)]
pub struct Life {
    pub first: u64,
    pub last: u64,
    pub fence: i64,
    pub node: String,
    pub starts: usize,
    pub ended: bool,
    pub pids: Vec<i32>,
}

/// The file that all jobs of one farm write to.
#[derive(Clone, Debug)]
pub struct Witness {
    path: PathBuf,
}

impl Witness {
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every line so far, in the order in which they were written.
    pub fn lines(&self) -> Vec<Seen> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        parse(whole).collect()
    }

    /// The lives of one run's attempts.
    pub fn lives(&self, run: i64) -> BTreeMap<i32, Life> {
        let mut lives = BTreeMap::new();
        for line in self.lines().iter().filter(|l| l.run == run) {
            enter(lives.entry(line.attempt).or_insert_with(|| Life::of(line)), line);
        }
        lives
    }

    /// One attempt's life.
    ///
    /// # Panics
    /// When the attempt wrote nothing.
    pub fn life(&self, run: i64, attempt: i32) -> Life {
        self.lives(run)
            .remove(&attempt)
            .unwrap_or_else(|| panic!("run {run} attempt {attempt} wrote nothing; {:?}", self.lives(run)))
    }

    /// Whether the first attempt of `run` began a moment ago: one of a second or more goes on when this is seen.
    pub fn has_just_begun(&self, run: i64) -> bool {
        let first = self.lives(run).remove(&1);
        first.is_some_and(|life| boot_ns().saturating_sub(life.first) < 300_000_000)
    }

    /// How many runs of `job` have reached their end.
    pub fn ends(&self, job: &str) -> usize {
        self.lines()
            .iter()
            .filter(|l| l.job == job && l.what == What::End)
            .count()
    }

    /// For each start among the attempts that `pick` takes: when it was, and how many of them were then alive, itself
    /// included. An attempt lives from its first line to its last.
    pub fn crowds(&self, pick: impl Fn(&Seen) -> bool) -> Vec<(u64, usize)> {
        let mut lives: BTreeMap<(i64, i32), (u64, u64)> = BTreeMap::new();
        for line in self.lines().iter().filter(|l| pick(l)) {
            let life = lives
                .entry((line.run, line.attempt))
                .or_insert((line.at, line.at));
            *life = (life.0.min(line.at), life.1.max(line.at));
        }
        let mut crowds: Vec<(u64, usize)> = (lives.values())
            .map(|(start, _)| {
                let alive = lives.values().filter(|(a, z)| a <= start && start <= z).count();
                (*start, alive)
            })
            .collect();
        crowds.sort_unstable();
        crowds
    }

    /// The most of them alive at once.
    pub fn most_at_once(&self, pick: impl Fn(&Seen) -> bool) -> usize {
        self.crowds(pick).into_iter().map(|(_, n)| n).max().unwrap_or(0)
    }

    /// Checks all that is written: no line of an older attempt after the first line of a newer one; no
    /// attempt started twice; fences growing with the attempts.
    ///
    /// # Panics
    /// With the lines that contradict it.
    pub fn check(&self) {
        // Newest line of the newest attempt, and all starts, by run.
        let mut newest: BTreeMap<i64, Seen> = BTreeMap::new();
        let mut starts: BTreeMap<(i64, i32), Seen> = BTreeMap::new();
        for line in self.lines() {
            if let Some(before) = newest.get(&line.run) {
                assert!(
                    line.attempt >= before.attempt,
                    "two live attempts of run {}: {line:?} after {before:?}",
                    line.run
                );
                let grows = (line.attempt > before.attempt) == (line.fence > before.fence);
                assert!(
                    grows && line.fence >= before.fence,
                    "the fence of {line:?} after {before:?}"
                );
            }
            if line.what == What::Start
                && let Some(before) = starts.insert((line.run, line.attempt), line.clone())
            {
                panic!("one attempt started twice: {before:?} and {line:?}");
            }
            newest.insert(line.run, line);
        }
    }
}

impl Life {
    fn of(line: &Seen) -> Self {
        Self {
            first: line.at,
            last: line.at,
            fence: line.fence,
            node: line.node.clone(),
            starts: 0,
            ended: false,
            pids: Vec::new(),
        }
    }

    /// From the last sign of this life to the first of the `next`; zero when they overlap.
    pub fn gap_to(&self, next: &Life) -> Duration {
        Duration::from_nanos(next.first.saturating_sub(self.last))
    }
}

fn enter(life: &mut Life, line: &Seen) {
    (life.first, life.last) = (life.first.min(line.at), life.last.max(line.at));
    life.starts += usize::from(line.what == What::Start);
    life.ended |= line.what == What::End;
    if !life.pids.contains(&line.pid) {
        life.pids.push(line.pid);
    }
}

/// The lines of a witness file. One that was torn by a kill is left out: it has no mark of an end.
///
/// # Panics
/// With a whole line that no witness writes.
pub fn parse(text: &str) -> impl Iterator<Item = Seen> {
    let whole = text.lines().filter_map(|line| line.strip_suffix(" ."));
    whole.map(|line| seen(line).unwrap_or_else(|| panic!("witness: {line:?}")))
}

fn seen(line: &str) -> Option<Seen> {
    let mut words = line.split(' ');
    Some(Seen {
        at: words.next()?.parse().ok()?,
        what: match words.next()? {
            "start" => What::Start,
            "beat" => What::Beat,
            "end" => What::End,
            "clash" => What::Clash,
            _ => return None,
        },
        job: words.next()?.to_owned(),
        run: words.next()?.parse().ok()?,
        attempt: words.next()?.parse().ok()?,
        fence: words.next()?.parse().ok()?,
        node: words.next()?.to_owned(),
        pid: words.next()?.parse().ok()?,
        due: words.next().unwrap_or("-").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_a_kill_tore_is_left_out() {
        let whole = "\n7 beat tick 3 1 5 n1 42 - .\n";
        let torn = "\n9 beat tick 3 1 5 n1 4";
        let lines: Vec<_> = parse(&[whole, torn, whole].concat())
            .map(|s| (s.at, s.run))
            .collect();
        assert_eq!(lines, [(7, 3), (7, 3)]);
    }
}
