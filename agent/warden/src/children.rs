//! Children that grow too old or too fat are ended by name, inside their attempt's tree only; the command itself
//! never is: `timeout` and `limits` are for that.

use std::collections::HashMap;

use farmhand_core::definition::{ChildLimit, Isolation};
use farmhand_core::document::millis;
use rustix::process::Signal;

use farmhand_os::clock::{MILLISECOND, SECOND, boottime_ns, wall_ms};
use farmhand_os::process::{self, Stat};
use farmhand_warden_client::wire::{ChildKill, KillWhy, SpawnRequest};

/// Kills kept for an agent that is away.
const MAX_KEPT: usize = 64;

/// What was ended of one attempt's children, and what is being ended.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// Asked politely, by process and start: SIGKILL is due then.
    asked: HashMap<(i32, u64), u64>,
    /// Not confirmed by an agent yet.
    kept: Vec<ChildKill>,
    /// Kills so far: the number of the next.
    count: u64,
    /// Up to which number the present agent has been told.
    told: u64,
}

impl Children {
    /// The agent has written these down.
    pub(crate) fn confirmed(&mut self, up_to: u64) {
        self.kept.retain(|kill| kill.number > up_to);
    }

    pub(crate) fn kept(&self) -> &[ChildKill] {
        &self.kept
    }

    /// There is another agent.
    pub(crate) fn tell_anew(&mut self) {
        self.told = 0;
    }

    pub(crate) fn untold(&mut self) -> Vec<ChildKill> {
        let told = std::mem::replace(&mut self.told, self.count);
        self.kept.iter().filter(|k| k.number > told).cloned().collect()
    }

    /// Ends those of the tree that are beyond a limit; what was asked to end now.
    pub(crate) fn end_beyond_limits(
        &mut self,
        main: i32,
        request: &SpawnRequest,
        members: &[Stat],
    ) -> Vec<ChildKill> {
        let now = boottime_ns();
        let command = command(main, request, members);
        let grace = request.grace_ms.saturating_mul(MILLISECOND).min(10 * SECOND);
        let (mut asked, mut ended) = (HashMap::new(), Vec::new());
        for child in members.iter().filter(|m| m.pid != main && Some(m.pid) != command) {
            let key = (child.pid, child.start);
            if let Some(kill_at) = self.asked.get(&key).copied() {
                if now >= kill_at {
                    let _ = process::signal(child, Signal::KILL);
                }
                asked.insert(key, kill_at);
                continue;
            }
            let names = names(child.pid);
            let broken = (request.child_limits.iter())
                .filter(|limit| names.iter().any(|n| fits(n, &limit.name)))
                .find_map(|limit| Some((limit.name.clone(), broken(limit, child, now)?)));
            if let Some((name, why)) = broken {
                let _ = process::signal(child, Signal::TERM);
                let _ = process::signal(child, Signal::CONT);
                asked.insert(key, now.saturating_add(grace));
                ended.push(self.record(name, child.pid, why));
            }
        }
        // Those that are gone are forgotten, so that this is bounded by the tree.
        self.asked = asked;
        ended
    }

    fn record(&mut self, name: String, pid: i32, why: KillWhy) -> ChildKill {
        self.count += 1;
        let kill = ChildKill {
            number: self.count,
            name,
            pid,
            why,
            wall_ms: wall_ms(),
        };
        if self.kept.len() < MAX_KEPT {
            self.kept.push(kill.clone());
        }
        kill
    }
}

/// The command's own process, where it is not the main one: below the init of a namespace, the first child.
fn command(main: i32, request: &SpawnRequest, members: &[Stat]) -> Option<i32> {
    let below = members.iter().filter(|m| m.ppid == main);
    let first = below.min_by_key(|m| m.start).map(|m| m.pid);
    first.filter(|_| request.isolation == Isolation::Pid)
}

fn broken(limit: &ChildLimit, child: &Stat, now: u64) -> Option<KillWhy> {
    let age = now.saturating_sub(process::started_ns(child));
    if let Some(most) = limit.max_age.filter(|most| u128::from(age) > most.as_nanos()) {
        return Some(KillWhy::Age {
            ms: age / MILLISECOND,
            most_ms: millis(most),
        });
    }
    let most = limit.max_memory?;
    let bytes = process::rss_bytes(child.pid).filter(|rss| *rss > most)?;
    Some(KillWhy::Memory { bytes, most })
}

/// What a process may be called: the kernel's name, and the file of its first argument.
fn names(pid: i32) -> Vec<String> {
    let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let comm = text(read("comm").trim_ascii_end());
    let line = read("cmdline");
    let first = line.split(|b| *b == 0).next().unwrap_or_default();
    let file = first.rsplit(|b| *b == b'/').next().unwrap_or_default();
    vec![comm, text(file)]
}

/// The kernel keeps 15 bytes of a name.
fn fits(name: &str, wanted: &str) -> bool {
    name == wanted || (name.len() == 15 && wanted.as_bytes().get(..15) == Some(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_cut_off_still_fits() {
        assert!(fits("wget", "wget"));
        assert!(!fits("wget2", "wget"));
        assert!(fits("a-very-long-nam", "a-very-long-name-of-a-program"));
        assert!(!fits("a-very-long-nam", "a-very-long-nbme"));
    }

    #[test]
    fn this_process_is_as_old_as_it_is() {
        let own = process::stat(std::process::id().cast_signed()).unwrap();
        let age = boottime_ns().saturating_sub(process::started_ns(&own));
        assert!(age < 600 * SECOND, "{age}");
        let limit = |max_age| ChildLimit {
            name: "x".to_owned(),
            max_age,
            max_memory: None,
        };
        let hour = std::time::Duration::from_secs(3600);
        assert_eq!(broken(&limit(Some(hour)), &own, boottime_ns()), None);
        let later = boottime_ns() + 3601 * SECOND;
        assert!(matches!(
            broken(&limit(Some(hour)), &own, later),
            Some(KillWhy::Age { .. })
        ));
        let fat = ChildLimit {
            max_memory: Some(1),
            ..limit(None)
        };
        assert!(matches!(
            broken(&fat, &own, later),
            Some(KillWhy::Memory { most: 1, .. })
        ));
    }
}
