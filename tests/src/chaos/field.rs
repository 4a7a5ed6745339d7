//! The farm that the faults hit: agents in networks of their own, two servers, jobs with a witness.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::Client;

use super::jobs;
use super::oracle::{Done, Surprise, Window};
use super::pair::Pair;
use super::place::{HUB, Place};
use super::plan::Shape;
use crate::bin::farmhand;
use crate::farm::{Agent, TTL, send};
use crate::processes::{self, Process};
use crate::proxy::Proxy;
use crate::witness::boot_ns;

/// An agent and what is around it.
pub struct Site {
    pub name: String,
    pub agent: tokio::sync::Mutex<Agent>,
    /// Between every other agent and each server.
    pub proxies: Vec<Proxy>,
    clock: PathBuf,
    /// It shall be running: one that is not has ended by itself.
    wanted: Mutex<bool>,
}

/// The whole of it. Everything ends with this value, and with the process.
pub struct Field {
    pub sites: Vec<Site>,
    pub pair: tokio::sync::Mutex<Pair>,
    pub done: Mutex<Vec<Done>>,
    pub windows: Mutex<Vec<Window>>,
    /// Runs whose submission was confirmed.
    pub submitted: Mutex<Vec<i64>>,
    /// Agents that ended by themselves.
    pub surprises: Mutex<Vec<Surprise>>,
    pub listeners: usize,
    kept: bool,
    dir: TempDir,
}

impl Field {
    /// A farm at rest: every agent has its session, no job is stored.
    pub async fn new(shape: &Shape) -> Self {
        sweep();
        let dir = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("its mode");
        for part in ["witness", "locks"] {
            std::fs::create_dir(dir.path().join(part)).expect("a directory");
        }
        let pair = Pair::start(shape.failovers, shape.pgbouncer).await;
        let mut sites = Vec::new();
        for number in 1..=shape.agents {
            sites.push(Site::new(number, dir.path(), &pair.ports(), shape.pgbouncer).await);
        }
        let field = Self {
            sites,
            pair: tokio::sync::Mutex::new(pair),
            done: Mutex::default(),
            windows: Mutex::default(),
            submitted: Mutex::default(),
            surprises: Mutex::default(),
            listeners: shape.listeners,
            kept: false,
            dir,
        };
        for site in &field.sites {
            site.start().await;
        }
        for site in &field.sites {
            site.agent.lock().await.ready().await;
        }
        field
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The directory stays when this value goes.
    pub fn keep(&mut self) -> PathBuf {
        self.dir.disable_cleanup(true);
        self.kept = true;
        self.dir.path().with_file_name(format!(
            "kept-{}",
            self.dir.path().file_name().expect("a name").display()
        ))
    }

    /// Stores the suite's jobs.
    pub async fn apply_jobs(&self) {
        let file = self.dir().join("jobs.toml");
        let text = jobs::document(&crate::farm::witness_program(), self.dir());
        std::fs::write(&file, text).expect("the job file");
        self.farmhand(&["job", "apply", &file.display().to_string()])
            .await;
    }

    /// Runs a `farmhand` command against the primary.
    ///
    /// # Panics
    /// When it fails.
    pub async fn farmhand(&self, arguments: &[&str]) -> String {
        let url = self.pair.lock().await.url();
        // "Try again", it says of a job that is due each second on a machine that takes longer than that.
        for tries in (0..30).rev() {
            let out = Command::new(farmhand())
                .args(arguments)
                .env("FARMHAND_DATABASE_URL", &url)
                .env("NO_COLOR", "1")
                .stdin(Stdio::null())
                .output()
                .expect("farmhand starts");
            if out.status.success() {
                return String::from_utf8_lossy(&out.stdout).into_owned();
            }
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(tries > 0, "farmhand {arguments:?}: {said}");
            eprintln!("farmhand {arguments:?}: {said}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        unreachable!("the last try returns or panics")
    }

    /// A connection of the harness's own to the primary, unless it does not answer in time.
    pub async fn client(&self) -> Option<Client> {
        let pair = self.pair.try_lock().ok()?;
        let url = pair.url();
        drop(pair);
        let connect = tokio_postgres::connect(&url, tokio_postgres::NoTls);
        let (client, connection) = tokio::time::timeout(Duration::from_secs(3), connect)
            .await
            .ok()?
            .ok()?;
        tokio::spawn(connection);
        Some(client)
    }

    /// Living processes that belong to this farm.
    pub fn processes(&self) -> Vec<Process> {
        crate::farm::processes_of(self.dir())
    }

    /// Agents that ended without having been told to are noted, and started as systemd would.
    pub async fn supervise(&self) {
        for site in &self.sites {
            let Ok(mut agent) = site.agent.try_lock() else {
                continue;
            };
            if !*site.wanted.lock().expect("no panic under it") {
                continue;
            }
            if let Some(status) = agent.exited() {
                let surprise = Surprise {
                    node: site.name.clone(),
                    at: boot_ns(),
                    status: status.to_string(),
                    said: agent.log_tail(3),
                };
                self.surprises.lock().expect("no panic under it").push(surprise);
                agent.spawn();
            }
        }
    }
}

impl Site {
    async fn new(number: usize, dir: &Path, servers: &[u16], pooled: bool) -> Self {
        let name = format!("n{number}");
        let mut proxies = Vec::new();
        // Every other one, so that both ways are taken.
        if number.is_multiple_of(2) {
            for port in servers {
                let server = std::net::SocketAddr::from(([127, 0, 0, 1], *port));
                proxies.push(Proxy::start_at(HUB, server).await);
            }
        }
        let ports: Vec<u16> = if proxies.is_empty() {
            servers.to_vec()
        } else {
            proxies.iter().map(Proxy::port).collect()
        };
        let hosts: Vec<String> = ports.iter().map(|p| format!("{HUB}:{p}")).collect();
        let url = format!("postgresql://farm@{}/farmhand?sslmode=disable", hosts.join(","));
        let ttl = format!("{}ms", TTL.as_millis());
        let mut arguments = vec![
            "--lease-ttl".to_owned(),
            ttl,
            "--slots".to_owned(),
            "16".to_owned(),
        ];
        if pooled {
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
            wanted: Mutex::new(false),
        };
        site.set_clock(0);
        site
    }

    /// The wall clock of its agent, in seconds beside the true one.
    pub fn set_clock(&self, seconds: i64) {
        // Read at each look at the clock: never half a line.
        let new = self.clock.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n")).expect("the clock's file");
        std::fs::rename(&new, &self.clock).expect("the clock's file");
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
}

const PREFIX: &str = "fh-chaos-";

/// Removes what a harness that was killed could not: the processes went with it, its directory stayed. One that
/// was kept on purpose has another name by then.
fn sweep() {
    let entries = std::fs::read_dir("/tmp").into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next()?.parse::<i32>().ok());
        if pid.is_some_and(|pid| processes::one(pid).is_none()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The environment under which a wall clock follows a file.
fn faked(clock: &Path) -> Vec<(String, String)> {
    let places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let library = (places.iter())
        .map(|p| Path::new(p).join("faketime/libfaketime.so.1"))
        .find(|p| p.exists())
        .expect("this needs libfaketime: apt-get install faketime");
    [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
        // A step is seen within a second; looking each time would cost more than all the rest.
        ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("NO_FAKE_STAT", "1".to_owned()),
    ]
    .map(|(k, v)| (k.to_owned(), v))
    .to_vec()
}

impl Drop for Field {
    fn drop(&mut self) {
        for site in &mut self.sites {
            site.agent.get_mut().destroy();
        }
        // Each of them carries this farm's directory.
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let left = crate::farm::processes_of(self.dir.path());
            if left.is_empty() || Instant::now() > deadline {
                break;
            }
            for process in left {
                send(process.pid, libc::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if self.kept {
            let name = self.dir.path().file_name().expect("a name").display();
            let kept = self.dir.path().with_file_name(format!("kept-{name}"));
            let _ = std::fs::rename(self.dir.path(), kept);
        }
    }
}

/// Something that is going on, noted when it is over.
pub struct Doing {
    from: u64,
    node: Option<String>,
    database: bool,
    what: String,
}

impl Doing {
    pub fn begin(node: Option<&Site>, database: bool, what: String) -> Self {
        Self {
            from: boot_ns(),
            node: node.map(|s| s.name.clone()),
            database,
            what,
        }
    }

    pub fn from(&self) -> u64 {
        self.from
    }

    pub fn over(self, field: &Field) {
        field.done.lock().expect("no panic under it").push(Done {
            from: self.from,
            to: boot_ns(),
            node: self.node,
            database: self.database,
            what: self.what,
        });
    }
}

/// Descriptors that a process has open.
pub fn descriptors(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Whether a process lives, zombies excepted.
pub fn lives(pid: i32) -> bool {
    processes::one(pid).is_some_and(|p| p.state != 'Z')
}
