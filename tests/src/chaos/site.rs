//! One agent of the farm, and what is around it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::place::{HUB, Place, hub};
use super::plan::Shape;
use super::planner;
use crate::faketime::following;
use crate::farm::Agent;
use crate::proxy::Proxy;
use crate::witness::boot_ns;

/// A session that was over so long ago has no run left that is held for it.
const NOTHING_HELD: Duration = Duration::from_secs(60);

/// An agent and what is around it.
pub struct Site {
    /// Its address, but while it has another.
    pub name: String,
    pub agent: tokio::sync::Mutex<Agent>,
    /// Between every other agent and each server.
    pub proxies: Vec<Proxy>,
    clock: PathBuf,
    config: PathBuf,
    /// It shall be running: one that is not has ended by itself.
    wanted: Mutex<bool>,
    starts: Mutex<Vec<Start>>,
}

/// With which lease an agent was started.
#[derive(Clone, Copy)]
struct Start {
    at: u64,
    lease: Duration,
    /// Its wardens were dead, so that it has a session of its own.
    alone: bool,
}

impl Site {
    pub async fn new(number: usize, dir: &Path, servers: &[SocketAddr], shape: &Shape) -> Self {
        let name = format!("n{number}");
        let mut proxies = Vec::new();
        // Every other one, so that both ways are taken.
        if number.is_multiple_of(2) {
            for server in servers {
                proxies.push(Proxy::start_at(HUB, *server).await);
            }
        }
        let hosts: Vec<String> = if proxies.is_empty() {
            servers.iter().map(SocketAddr::to_string).collect()
        } else {
            proxies.iter().map(|p| hub(p.port()).to_string()).collect()
        };
        let url = format!("postgresql://farm@{}/farmhand?sslmode=disable", hosts.join(","));
        let config = dir.join(format!("{name}.toml"));
        let arguments = ["--lease-ttl", "", "--slots", "64", "--config"].map(str::to_owned);
        let mut arguments = Vec::from(arguments);
        arguments.push(config.display().to_string());
        if shape.pgbouncer {
            arguments.extend(["--notify", "off"].map(str::to_owned));
        }
        let clock = dir.join(format!("{name}.clock"));
        let mut agent = Agent::new(dir, &name, url, None, arguments, faked(&clock));
        agent.place = Some(Place::new(number, &agent.state_dir, 48));
        let site = Self {
            name,
            agent: tokio::sync::Mutex::new(agent),
            proxies,
            clock,
            config,
            wanted: Mutex::new(false),
            starts: Mutex::default(),
        };
        site.set_clock(0);
        site.set_zone(planner::zone(number - 1));
        site.set_lease(shape.lease(number - 1), true).await;
        site
    }

    /// The wall clock of its agent, in seconds beside the true one.
    pub fn set_clock(&self, seconds: i64) {
        replace(&self.clock, &format!("{seconds:+}\n"));
    }

    /// For the next start of its agent, and for the next SIGHUP.
    pub fn set_zone(&self, zone: char) {
        replace(&self.config, &format!("labels = {{ zone = '{zone}' }}\n"));
    }

    /// The lease of the next start; `alone` when no warden of the session before lives.
    pub async fn set_lease(&self, seconds: u64, alone: bool) {
        self.agent.lock().await.arguments[1] = format!("{seconds}s");
        self.starts.lock().expect("no panic under it").push(Start {
            at: boot_ns(),
            lease: Duration::from_secs(seconds),
            alone,
        });
    }

    /// The longest that its session may have: of every start since the last one that had a session of its own for certain, and of the
    /// session before that, whose length it keeps when runs of that were still held.
    pub fn longest_lease(&self) -> Duration {
        let starts = self.starts.lock().expect("no panic under it");
        let settled = boot_ns().saturating_sub(NOTHING_HELD.as_nanos() as u64);
        let own = starts.iter().rposition(|s| s.alone && s.at < settled);
        let before = starts[..own.unwrap_or(0)].iter().rposition(|s| s.alone);
        let since = starts[before.unwrap_or(0)..].iter();
        since.map(|s| s.lease).max().unwrap_or_default()
    }

    pub fn is_wanted(&self) -> bool {
        *self.wanted.lock().expect("no panic under it")
    }

    pub async fn start(&self) {
        let mut agent = self.agent.lock().await;
        *self.wanted.lock().expect("no panic under it") = true;
        if !agent.is_running() {
            agent.spawn();
        }
    }

    pub async fn kill(&self) {
        let mut agent = self.agent.lock().await;
        *self.wanted.lock().expect("no panic under it") = false;
        agent.kill();
    }

    /// Agent and wardens; the reapers end what is left. Whether the agent was there.
    pub async fn kill_with_wardens(&self) -> bool {
        let mut agent = self.agent.lock().await;
        *self.wanted.lock().expect("no panic under it") = false;
        let was = agent.is_running() && agent.exited().is_none();
        if was {
            agent.kill_with_wardens();
        }
        was
    }
}

/// Read while it is written: never half of it.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("a file of the farm");
    std::fs::rename(&new, path).expect("a file of the farm");
}

fn faked(clock: &Path) -> Vec<(String, String)> {
    // A step is seen within a second; looking each time would cost more than all the rest.
    following(clock, ("FAKETIME_CACHE_DURATION", "1"))
}
