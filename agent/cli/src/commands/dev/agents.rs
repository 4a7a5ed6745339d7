//! The agents of the farm: child processes of this same binary.

use farmhand_core::text::shell_word;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{DevArgs, kin};
use crate::commands::Failure;
use crate::embedded::{LEAVE, LOOK, end_with_parent, private_log};
use farmhand_os::signal::unblock_all;
use rustix::process::{Pid, Signal, kill_process};

/// This binary as a command that talks to the farm's database.
pub(super) fn farmhand(url: &str) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env("FARMHAND_DATABASE_URL", url);
    Ok(command)
}

/// One agent and how it was started.
pub(super) struct Agent {
    pub name: String,
    pub listen: SocketAddr,
    pub log: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
}

/// An agent that ended by itself, or by somebody's hand.
pub(crate) struct Dead {
    pub name: String,
    pub pid: u32,
    pub status: ExitStatus,
    pub log: PathBuf,
    /// What starts it again.
    pub command_line: String,
}

pub(super) struct Agents {
    all: Vec<Agent>,
    dir: PathBuf,
    url: String,
}

impl Agents {
    /// Chooses names, directories and ports; starts nothing. Agents of a farm that was killed keep theirs until they have ended.
    pub(super) fn new(dir: &Path, url: &str, args: &DevArgs) -> Result<Self, Failure> {
        wait_for_leftovers(dir);
        let mut port = args.port;
        let mut all = Vec::new();
        for number in 1..=args.agents {
            let listen = if number == 1 {
                wanted(port)?
            } else {
                next_free(port)?
            };
            port = listen.port().saturating_add(1);
            all.push(Agent::new(dir, number, listen, args.lease_ttl));
        }
        Ok(Self {
            all,
            dir: dir.to_path_buf(),
            url: url.to_owned(),
        })
    }

    pub(crate) fn start_all(&mut self) -> Result<(), Failure> {
        self.all.iter_mut().try_for_each(|agent| agent.start(&self.url))
    }

    pub(super) fn all(&self) -> &[Agent] {
        &self.all
    }

    /// Every process that belongs to the farm and no longer descends from this one names this directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Has every agent look for work now.
    pub(super) fn look(&self) {
        for child in self.all.iter().filter_map(|agent| agent.child.as_ref()) {
            let _ = kill_process(Pid::from_child(child), Signal::ALARM);
        }
    }

    /// Those that ended since the last call. Only agents are waited for here: whoever else ends is reaped by
    /// its own thread or, adopted, at the end.
    pub(super) fn reap(&mut self) -> Vec<Dead> {
        let url = &self.url;
        self.all.iter_mut().filter_map(|agent| agent.reap(url)).collect()
    }
}

impl Agent {
    fn new(dir: &Path, number: u16, listen: SocketAddr, ttl: Duration) -> Self {
        let name = format!("farm-{number}");
        let state = dir.join(&name).display().to_string();
        let ttl = format!("{}ms", ttl.as_millis());
        let listen_on = listen.to_string();
        let pairs: [(&str, &str); 5] = [
            ("--node-name", &name),
            ("--state-dir", &state),
            ("--listen", &listen_on),
            ("--lease-ttl", &ttl),
            ("--slots", "4"),
        ];
        let arguments = std::iter::once("agent".to_owned())
            .chain(
                pairs
                    .iter()
                    .flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()]),
            )
            .collect();
        Self {
            log: dir.join(format!("{name}.log")),
            name,
            listen,
            arguments,
            child: None,
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// In a process group of its own: the terminal's Ctrl-C is for the farm, which then ends its agents.
    fn start(&mut self, url: &str) -> Result<(), Failure> {
        let log = private_log(&self.log)?;
        let mut command = farmhand(url)?;
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        command.process_group(0);
        // SAFETY: a plain system call; the signals that this process takes by asking are not blocked for an agent.
        unsafe { command.pre_exec(unblock_all) };
        end_with_parent(&mut command, libc::SIGQUIT);
        self.child = Some(command.spawn()?);
        Ok(())
    }

    fn reap(&mut self, url: &str) -> Option<Dead> {
        let child = self.child.as_mut()?;
        let status = child.try_wait().ok()??;
        let dead = Dead {
            name: self.name.clone(),
            pid: child.id(),
            status,
            log: self.log.clone(),
            command_line: self.command_line(url),
        };
        self.child = None;
        Some(dead)
    }

    fn command_line(&self, url: &str) -> String {
        let program = std::env::current_exe().map_or("farmhand".to_owned(), |p| p.display().to_string());
        let words = std::iter::once(program).chain(self.arguments.iter().cloned());
        let words: Vec<String> = words.map(|word| shell_word(&word)).collect();
        format!("FARMHAND_DATABASE_URL={} {}", shell_word(url), words.join(" "))
    }
}

fn wait_for_leftovers(dir: &Path) {
    let deadline = Instant::now() + LEAVE;
    let lives = || kin::find("agent", dir).is_some();
    if lives() {
        super::say("waiting for the agents of an earlier farm to end");
    }
    while lives() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn wanted(port: u16) -> Result<SocketAddr, Failure> {
    let at = local(port);
    TcpListener::bind(at).map(|_| at).map_err(|error| {
        Failure::broken(format!("agent 1 cannot listen on {at}"))
            .why(error)
            .next("choose another port with --port")
    })
}

fn next_free(from: u16) -> Result<SocketAddr, Failure> {
    let free = (from..=u16::MAX)
        .map(local)
        .find(|at| TcpListener::bind(at).is_ok());
    free.ok_or_else(|| Failure::broken(format!("there is no free port from {from} on")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_passed_over_and_the_first_agents_is_refused() {
        let taken = TcpListener::bind(local(0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(wanted(port).unwrap_err().to_string().contains("--port"));
        assert!(next_free(port).unwrap().port() > port);
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_word("/a/b-c"), "/a/b-c");
        assert_eq!(
            shell_word("postgresql:///f?host=/x&user=y"),
            "'postgresql:///f?host=/x&user=y'"
        );
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
