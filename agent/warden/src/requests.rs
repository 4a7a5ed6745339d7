//! What an agent may ask for, and what becomes of it.

use std::path::Path;

use farmhand_core::definition::{Command, Isolation};
use farmhand_core::release;

use super::attempt::Attempt;
use super::lifecycle::{HARD_END_LEAD, Happened};
use super::plan::Plan;
use super::spawn::NotMade;
use super::warden::{Ended, Warden};
use super::{child, log, spawn, tombstones};
use farmhand_os::accounts::Account;
use farmhand_os::clock::{MILLISECOND, boottime_ns, wall_ms};
use farmhand_os::removal;
use farmhand_warden_client::Bounds;
use farmhand_warden_client::death::census::Member;
use farmhand_warden_client::death::cgroup::Group;
use farmhand_warden_client::output::OutputWriter;
use farmhand_warden_client::wire::*;

impl Attempt {
    pub(super) fn member(&self) -> Member<'_> {
        Member {
            id: self.id,
            main: self.pid,
            cgroup: self.cgroup(),
            run_dir: &self.run_dir,
        }
    }
}

impl Warden {
    pub(super) fn handle(&mut self, request: Request, held: bool) -> Result<Reply, Refusal> {
        match request {
            // Done by the connection itself.
            Request::Identify | Request::Hold | Request::Hello { .. } => Ok(Reply::Identity(self.identity())),
            Request::SetDeadline { deadline_ns, soft_ns } => Ok(self.set_deadline(deadline_ns, soft_ns)),
            Request::Spawn(request) => self.spawn(*request, held),
            Request::Forbid { id } => self.forbid(id),
            Request::Kill { id, grace_ms, reason } => self.kill(id, grace_ms, reason),
            Request::KillAll { grace_ms, reason } => Ok(self.kill_all(grace_ms, reason)),
            Request::Ack { id } => self.ack(id),
            Request::Heard { id, kills } => {
                if let Some(attempt) = self.living.get_mut(&id) {
                    attempt.children.confirmed(kills);
                }
                Ok(Reply::Acked)
            }
            Request::List { after } => Ok(Reply::List(self.list(after))),
            Request::Note { trusted_keys, signed } => self.note(&trusted_keys, &signed, held),
            Request::Shutdown { grace_ms } => {
                log(format_args!("warden: shutting down"));
                self.leaving = true;
                self.kill_all(grace_ms, KillReason::Shutdown);
                Ok(Reply::ShuttingDown)
            }
        }
    }

    pub(super) fn identity(&self) -> Identity {
        // SAFETY: getppid only asks.
        let reaper_pid = unsafe { libc::getppid() };
        Identity {
            protocol: PROTOCOL,
            version: release::version().to_owned(),
            serving: self.args.serving,
            address: self.args.address.clone(),
            generation: self.generation,
            warden_pid: std::process::id().cast_signed(),
            reaper_pid,
            deadline_ns: self.deadline_ns,
            soft_ns: self.soft_ns,
            cgroup: self.cgroup.as_ref().map(|p| p.path().display().to_string()),
            running: self.living.len() as u32,
            ended: self.ended.len() as u32,
            shutting_down: self.leaving,
            max_attempts: self.args.max_attempts,
        }
    }

    fn set_deadline(&mut self, deadline_ns: u64, soft_ns: u64) -> Reply {
        if deadline_ns > self.deadline_ns {
            self.deadline_ns = deadline_ns;
            self.soft_ns = soft_ns.min(deadline_ns);
            // What is being ended for the old deadline still ends: its SIGTERM cannot be taken back.
            self.soft_done = boottime_ns() >= self.soft_ns;
        }
        Reply::Deadline {
            deadline_ns: self.deadline_ns,
            soft_ns: self.soft_ns,
        }
    }

    fn forbid(&mut self, id: AttemptId) -> Result<Reply, Refusal> {
        if let Some(attempt) = self.living.get(&id) {
            return Ok(Reply::AlreadyStarted {
                state: attempt.lifecycle.state(),
            });
        }
        if self.ended.contains_key(&id) {
            return Ok(Reply::AlreadyStarted { state: State::Ended });
        }
        match self.tombstones.forbid(id) {
            true => Ok(Reply::Forbidden),
            false => Err(Refusal::Full {
                what: "forbidden attempts".into(),
                max: tombstones::MAX_FORBIDDEN as u32,
            }),
        }
    }

    fn kill(&mut self, id: AttemptId, grace_ms: u64, reason: KillReason) -> Result<Reply, Refusal> {
        if self.living.contains_key(&id) {
            let grace_ns = grace_ms.saturating_mul(MILLISECOND);
            self.ask(id, |_| Happened::Asked { reason, grace_ns });
            return Ok(Reply::Killing { attempts: 1 });
        }
        match self.ended.contains_key(&id) {
            true => Ok(Reply::Killing { attempts: 0 }),
            false => Err(Refusal::Unknown { id }),
        }
    }

    fn kill_all(&mut self, grace_ms: u64, reason: KillReason) -> Reply {
        let grace_ns = grace_ms.saturating_mul(MILLISECOND);
        Reply::Killing {
            attempts: self.ask_all(|_| Happened::Asked { reason, grace_ns }),
        }
    }

    fn ack(&mut self, id: AttemptId) -> Result<Reply, Refusal> {
        if self.living.contains_key(&id) {
            return Err(Refusal::Running { id });
        }
        if self.ended.remove(&id).is_some() {
            self.tombstones.done(id);
        } else if !self.tombstones.stands(id) {
            return Err(Refusal::Unknown { id });
        }
        Ok(Reply::Acked)
    }

    fn spawn(&mut self, request: SpawnRequest, held: bool) -> Result<Reply, Refusal> {
        let id = request.id;
        if let Some(attempt) = self.living.get(&id) {
            return Ok(Reply::Spawned {
                pid: attempt.pid,
                already: true,
            });
        }
        if let Some(ended) = self.ended.get(&id) {
            return Ok(Reply::Spawned {
                pid: ended.report.pid,
                already: true,
            });
        }
        self.may_start(&request)?;
        let mut request = request;
        let bounds = Bounds::of(&self.paths, held)?;
        let agent = bounds.as_ref().map(|bounds| bounds.agent);
        if let Some(bounds) = bounds {
            bounds.hold(&mut request);
        }
        let request = match self.vouched(request) {
            Ok(request) => request,
            Err((request, failure)) => {
                log(format_args!(
                    "warden: attempt {id} is refused: {}",
                    failure.message
                ));
                self.never_started(*request, failure);
                return Ok(Reply::Spawned {
                    pid: 0,
                    already: false,
                });
            }
        };
        let pid = self.start(request, agent)?;
        Ok(Reply::Spawned { pid, already: false })
    }

    fn may_start(&self, request: &SpawnRequest) -> Result<(), Refusal> {
        let id = request.id;
        let invalid = |why: &str| Err(Refusal::Invalid { why: why.to_owned() });
        if request.stdin.as_ref().is_some_and(|s| s.len() > MAX_STDIN) {
            return invalid("stdin holds more than 1 MiB");
        }
        if matches!(&request.command, Command::Argv(argv) if argv.is_empty()) {
            return invalid("the command is empty");
        }
        if request
            .env
            .keys()
            .any(|name| name.is_empty() || name.contains('='))
        {
            return invalid("an environment variable's name is empty or holds a =");
        }
        // Each becomes a file's name, made by a process that may still be root.
        if !request.secrets.keys().all(|name| is_secret_name(name)) {
            return invalid("a secret's name holds other than letters, digits and _");
        }
        if self.tombstones.stands(id) {
            return Err(Refusal::Tombstone { id });
        }
        let run = AttemptId {
            run_id: id.run_id,
            attempt: i32::MIN,
        }..;
        let other = self.living.range(run).next().map(|(id, _)| *id);
        if let Some(alive) = other.filter(|other| other.run_id == id.run_id) {
            return Err(match alive.attempt > id.attempt {
                true => Refusal::Tombstone { id },
                false => Refusal::OlderAlive { alive },
            });
        }
        if self.leaving {
            return Err(Refusal::ShuttingDown);
        }
        let now = boottime_ns();
        // The kernel's timer is set to the hard end before the fork: by then, and by the SIGKILL after it, that must not be over.
        if now >= self.soft_ns || request.hard_end_ns.is_some_and(|end| now + HARD_END_LEAD >= end) {
            return Err(Refusal::Ending);
        }
        let max = self.args.max_attempts;
        if self.living.len() + self.ended.len() >= max as usize {
            return Err(Refusal::Full {
                what: "attempts".into(),
                max,
            });
        }
        Ok(())
    }

    fn start(&mut self, mut request: SpawnRequest, agent: Option<Account>) -> Result<i32, Refusal> {
        let id = request.id;
        let policy = Bounds::policy(agent, &request);
        // By the name that the job or the policy gives: no directory of users is asked here.
        let own = self
            .own
            .user()
            .map(|user| user.name.to_string_lossy().into_owned());
        let user = request
            .user
            .as_deref()
            .or_else(|| policy.default_user())
            .or(own.as_deref());
        let default = policy
            .limits(&[user.unwrap_or_default()])
            .limits
            .unwrap_or_default();
        request.limits.memory = request.limits.memory.or(default.memory);
        request.limits.processes = request.limits.processes.or(default.processes);
        let machine = |what: &str, error: std::io::Error| Refusal::Machine {
            why: format!("{what}: {error}"),
        };
        let dir = self.paths.attempt_dir(id);
        let run_dir = self.paths.run_dir(id);
        // Without it a command would work in `/`, and bear no mark by which its processes are found.
        make_run_dir(&dir, &run_dir).map_err(|e| machine("run directory", e))?;
        let output = OutputWriter::new(dir.clone(), request.output_local);
        let group = match &self.cgroup {
            Some(parent) => {
                Some(Group::create(parent, id, &request.limits).map_err(|e| machine("cgroup", e))?)
            }
            None => None,
        };
        let entry = group
            .as_ref()
            .map(Group::entry)
            .transpose()
            .map_err(|e| machine("cgroup", e))?;
        self.arm_fence(request.hard_end_ns)
            .map_err(|e| machine("timer", e))?;
        let plan = Plan {
            policy,
            request,
            run_dir: run_dir.clone(),
            restore: self.restore,
            own: self.own.user().cloned(),
        };
        let started = spawn::start(&plan, entry.as_ref(), &self.liveness);
        let request = plan.request;
        let started = match started {
            Ok(started) => started,
            Err(not_made) => {
                if let Some(group) = &group {
                    let _ = farmhand_warden_client::death::cgroup::remove(group.path());
                }
                let busy = [Some(libc::EAGAIN), Some(libc::ENOMEM)];
                return match not_made {
                    NotMade::Fork(error)
                        if request.isolation == Isolation::Pid && !busy.contains(&error.raw_os_error()) =>
                    {
                        let failure = child::system(Stage::Isolation, "clone", &error);
                        self.never_started(request, failure);
                        Ok(0)
                    }
                    NotMade::Fork(error) => Err(machine("fork", error)),
                    NotMade::Needs(error) => Err(machine("pipes and files", error)),
                };
            }
        };
        let pid = started.pid;
        let slot = self.next_slot;
        self.next_slot = self.next_slot.wrapping_add(1);
        let attempt = Attempt::new(slot, request, started, group, run_dir, output);
        // Registered before anything can fail, so that whatever fails it is reaped and reported.
        self.slots.insert(slot, id);
        self.by_pid.insert(pid, id);
        let watched = attempt.watch(&self.poller);
        self.living.insert(id, attempt);
        if let Err(error) = watched {
            log(format_args!("warden: attempt {id} cannot be watched: {error}"));
            self.ask(id, |_| Happened::Asked {
                reason: KillReason::Shutdown,
                grace_ns: 0,
            });
        }
        Ok(pid)
    }

    /// The machine has no PID namespaces for us, or the definition is not to be trusted: that is this job's failure, not a
    /// reason to ask again.
    pub(super) fn never_started(&mut self, request: SpawnRequest, failure: StartFailure) {
        let (wall, ns) = (wall_ms(), boottime_ns());
        let result = AttemptResult {
            ending: Ending::StartFailed(failure),
            killed: None,
            started_wall_ms: wall,
            ended_wall_ms: wall,
            started_ns: ns,
            ended_ns: ns,
            user_us: 0,
            sys_us: 0,
            max_rss_bytes: 0,
            leftovers: 0,
            checkpoint: None,
            output: OutputStats::default(),
        };
        let report = AttemptReport {
            id: request.id,
            fence: request.fence,
            state: State::Ended,
            unkillable: false,
            pid: 0,
            started_wall_ms: wall,
            started_ns: ns,
            checkpoint: None,
            child_kills: Vec::new(),
            extra: request.extra,
            result: Some(result),
        };
        self.ended.insert(request.id, Ended { report, told: false });
    }
}

fn is_secret_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.len() <= 200 && name.chars().all(plain)
}

/// A directory of that name can only be left from a database that is gone.
fn make_run_dir(dir: &Path, run_dir: &Path) -> std::io::Result<()> {
    use farmhand_warden_client::paths::{named, readable_dir};
    use std::os::unix::fs::DirBuilderExt;
    let made = match std::fs::create_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            // What is left of it has been put aside.
            let _ = removal::remove(dir, removal::BRIEFLY);
            std::fs::create_dir(dir)
        }
        made => made,
    };
    made.map_err(|e| named(e, dir))?;
    let runs = dir.parent().unwrap_or(dir);
    readable_dir(runs, dir).map_err(|e| named(e, dir))?;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(run_dir)
        .map_err(|e| named(e, run_dir))
}
