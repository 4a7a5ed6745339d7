//! What an agent may ask for, and what becomes of it.

use std::path::Path;

use farmhand_core::definition::{Command, Isolation};

use super::attempt::Attempt;
use super::child::spawn::{self, NotMade};
use super::child::{Plan, system};
use super::lifecycle::{HARD_END_LEAD, Happened};
use super::log::log;
use super::verify;
use super::warden::Warden;
use farmhand_os::accounts::Account;
use farmhand_os::clock::{MILLISECOND, boottime_ns};
use farmhand_os::removal;
use farmhand_policy::trust::Trust;
use farmhand_warden_client::Bounds;
use farmhand_warden_client::death::cgroup::{self, Group};
use farmhand_warden_client::output::OutputWriter;
use farmhand_warden_client::wire::*;

impl Warden {
    pub(super) fn on_connection(&mut self, number: u32) {
        self.peers.receive(number, &self.poller);
        while let Some(FromAgent { seq, request }) = self.peers.request(number, &self.poller) {
            let result = self.answer(number, request);
            self.peers.reply(number, seq, result, &self.poller);
        }
        self.peers.flush(number, &self.poller);
    }

    fn answer(&mut self, number: u32, request: Request) -> Result<Reply, Refusal> {
        if let Request::Hello {
            protocol,
            agent_pid,
            expect,
            address,
        } = &request
        {
            // Before anything is taken from the agent that is here.
            self.serves(*expect, address)?;
            if *protocol != PROTOCOL {
                return Err(Refusal::Protocol { warden: PROTOCOL });
            }
            self.peers.take_over(number, *agent_pid, &self.poller);
            self.attempts.tell_anew();
        }
        let connection = self.peers.get_mut(number).ok_or(Refusal::NoHello)?;
        match &request {
            Request::Hello { .. } => {}
            Request::Identify => connection.open_for_notices = connection.agent,
            Request::Hold => connection.held = true,
            _ if connection.agent => {}
            _ => return Err(Refusal::NoHello),
        }
        let held = connection.held;
        self.handle(request, held)
    }

    /// Whether this is the lease that an agent wants to take over.
    fn serves(&self, expect: Option<Serving>, address: &str) -> Result<(), Refusal> {
        let serving = self.launch.serving;
        if address != self.launch.address {
            return Err(Refusal::WrongAddress {
                address: self.launch.address.clone(),
                serving,
            });
        }
        match expect {
            Some(expected) if expected != serving => Err(Refusal::WrongLife { serving }),
            _ => Ok(()),
        }
    }

    fn handle(&mut self, request: Request, held: bool) -> Result<Reply, Refusal> {
        match request {
            Request::Identify | Request::Hold | Request::Hello { .. } => Ok(Reply::Identity(self.identity())),
            Request::SetDeadline { deadline_ns, soft_ns } => {
                self.ends.extend(deadline_ns, soft_ns);
                Ok(Reply::Deadline {
                    deadline_ns: self.ends.deadline_ns(),
                    soft_ns: self.ends.soft_ns(),
                })
            }
            Request::Spawn(request) => self.spawn(*request, held),
            Request::Forbid { id } => self.attempts.forbid(id),
            Request::Kill { id, grace_ms, reason } => self.kill(id, grace_ms, reason),
            Request::KillAll { grace_ms, reason } => self.kill_all(grace_ms, reason),
            Request::Ack { id } => self.attempts.ack(id),
            Request::Heard { id, kills } => {
                if let Some(attempt) = self.attempts.get_mut(id) {
                    attempt.children.confirmed(kills);
                }
                Ok(Reply::Acked)
            }
            Request::List { after } => Ok(Reply::List(self.attempts.list(after))),
            Request::Note { trusted_keys, signed } => {
                let keys = match Bounds::of(&self.paths, held)? {
                    Some(bounds) => bounds.trusted_keys,
                    None => Some(trusted_keys),
                };
                verify::note(&Trust::now(keys.as_deref()), &signed, &mut self.seen)
            }
            Request::Shutdown { grace_ms } => {
                log(format_args!("warden: shutting down"));
                self.leaving = true;
                self.kill_all(grace_ms, KillReason::Shutdown)
            }
        }
    }

    fn identity(&self) -> Identity {
        // SAFETY: getppid only asks.
        let reaper_pid = unsafe { libc::getppid() };
        Identity {
            protocol: PROTOCOL,
            serving: self.launch.serving,
            address: self.launch.address.clone(),
            generation: self.peers.generation(),
            warden_pid: std::process::id().cast_signed(),
            reaper_pid,
            deadline_ns: self.ends.deadline_ns(),
            soft_ns: self.ends.soft_ns(),
            cgroup: self.cgroup.as_ref().map(|p| p.path().display().to_string()),
            max_attempts: self.launch.max_attempts,
        }
    }

    fn kill(&mut self, id: AttemptId, grace_ms: u64, reason: KillReason) -> Result<Reply, Refusal> {
        let grace_ns = grace_ms.saturating_mul(MILLISECOND);
        self.ask(id, |_| Happened::Asked { reason, grace_ns });
        match self.attempts.started(id) {
            Some(_) => Ok(Reply::Acked),
            None => Err(Refusal::Unknown { id }),
        }
    }

    fn kill_all(&mut self, grace_ms: u64, reason: KillReason) -> Result<Reply, Refusal> {
        let grace_ns = grace_ms.saturating_mul(MILLISECOND);
        self.ask_all(|_| Happened::Asked { reason, grace_ns });
        Ok(Reply::Acked)
    }

    fn spawn(&mut self, mut request: SpawnRequest, held: bool) -> Result<Reply, Refusal> {
        let id = request.id;
        if let Some(pid) = self.attempts.started(id) {
            return Ok(Reply::Spawned { pid, already: true });
        }
        self.may_start(&request)?;
        let bounds = Bounds::of(&self.paths, held)?;
        let agent = bounds.as_ref().map(|bounds| bounds.agent);
        if let Some(bounds) = bounds {
            bounds.hold(&mut request);
        }
        let pid = match verify::vouched(request, &mut self.seen) {
            Ok(request) => self.start(request, agent)?,
            Err((request, failure)) => {
                let why = &failure.message;
                log(format_args!("warden: attempt {id} is refused: {why}"));
                self.attempts.never_started(*request, failure);
                0
            }
        };
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
        self.attempts.may_start(id)?;
        if self.leaving {
            return Err(Refusal::ShuttingDown);
        }
        let now = boottime_ns();
        // The kernel's timer is set to the hard end before the fork: by then, and by the SIGKILL after it, that must not be over.
        if now >= self.ends.soft_ns() || request.hard_end_ns.is_some_and(|end| now + HARD_END_LEAD >= end) {
            return Err(Refusal::Ending);
        }
        let max = self.launch.max_attempts;
        if self.attempts.living_count() + self.attempts.ended_count() >= max as usize {
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
            .own_user
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
            own: self.own_user.user().cloned(),
        };
        let started = spawn::start(&plan, entry.as_ref(), &self.liveness);
        let request = plan.request;
        let started = match started {
            Ok(started) => started,
            Err(not_made) => {
                if let Some(group) = &group {
                    let _ = cgroup::remove(group.path());
                }
                let busy = [Some(libc::EAGAIN), Some(libc::ENOMEM)];
                return match not_made {
                    NotMade::Fork(error)
                        if request.isolation == Isolation::Pid && !busy.contains(&error.raw_os_error()) =>
                    {
                        let failure = system(Stage::Isolation, "clone", &error);
                        self.attempts.never_started(request, failure);
                        Ok(0)
                    }
                    NotMade::Fork(error) => Err(machine("fork", error)),
                    NotMade::Needs(error) => Err(machine("pipes and files", error)),
                };
            }
        };
        let pid = started.pid;
        let slot = self.attempts.next_slot();
        let attempt = Attempt::new(slot, request, started, group, run_dir, output);
        let watched = attempt.watch(&self.poller);
        // Whatever failed, it is reaped and reported.
        self.attempts.add(attempt);
        if let Err(error) = watched {
            log(format_args!("warden: attempt {id} cannot be watched: {error}"));
            self.ask(id, |_| Happened::Asked {
                reason: KillReason::Shutdown,
                grace_ns: 0,
            });
        }
        Ok(pid)
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
