//! The farm that the faults hit: agents in networks of their own, two servers, jobs with a witness.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::pg::Client;
use tempfile::TempDir;

use super::gather::Clocks;
use super::jobs;
use super::oracle::{Done, Surprise, Window};
use super::plan::Shape;
use super::servers::Servers;
use super::site::Site;
use super::table;
use crate::bin::farmhand;
use crate::farm::send;
use crate::processes::{self, Process};
use crate::witness::boot_ns;

/// The whole of it. Everything ends with this value, and with the process.
pub struct Field {
    pub sites: Vec<Site>,
    pub servers: Servers,
    /// Of faults that hit the servers: one after the other.
    pub turn: tokio::sync::Mutex<()>,
    pub done: Mutex<Vec<Done>>,
    pub windows: Mutex<Vec<Window>>,
    /// Runs whose submission was confirmed.
    pub submitted: Mutex<Vec<i64>>,
    /// Sites whose labels changed, and when.
    pub relabelled: Mutex<Vec<(String, u64)>>,
    /// Agents that ended by themselves.
    pub surprises: Mutex<Vec<Surprise>>,
    /// This machine's, as they were read while the plan goes on.
    pub clocks: Mutex<Clocks>,
    pub listeners: usize,
    /// The agents reach the servers through a pooler.
    pub pooled: bool,
    pub shortest_lease: Duration,
    pub longest_lease: Duration,
    kept: bool,
    _alive: File,
    dir: TempDir,
}

impl Field {
    /// A farm at rest: every agent has its session, no job is stored.
    pub async fn new(shape: &Shape) -> Self {
        sweep();
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        let alive = lock(dir.path());
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("its mode");
        for part in ["witness", "locks"] {
            std::fs::create_dir(dir.path().join(part)).expect("a directory");
        }
        let servers = Servers::start(shape, dir.path()).await;
        let addresses = servers.addresses().await;
        let mut sites = Vec::new();
        for number in 1..=shape.agents {
            sites.push(Site::new(number, dir.path(), &addresses, shape).await);
        }
        let field = Self {
            sites,
            servers,
            turn: tokio::sync::Mutex::default(),
            done: Mutex::default(),
            windows: Mutex::default(),
            submitted: Mutex::default(),
            relabelled: Mutex::default(),
            surprises: Mutex::default(),
            clocks: Mutex::default(),
            listeners: shape.listeners,
            pooled: shape.pgbouncer,
            shortest_lease: Duration::from_secs(shape.shortest_lease()),
            longest_lease: Duration::from_secs(shape.longest_lease()),
            kept: false,
            _alive: alive,
            dir,
        };
        for site in &field.sites {
            site.start().await;
        }
        field.until_ready().await;
        field
    }

    /// A machine that starves may end a warden in the moment in which it starts: its agent ends too, and is started again.
    async fn until_ready(&self) {
        let deadline = Instant::now() + READY;
        for site in &self.sites {
            while !matches!(site.agent.lock().await.get("/readyz").await, Some((200, _))) {
                assert!(Instant::now() < deadline, "{} is not ready", site.name);
                self.supervise().await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
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

    /// Stores the suite's jobs, and makes the table of one of them.
    pub async fn apply_jobs(&self) {
        table::create(&self.client().await.expect("a database")).await;
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
        // "Try again", it says of a job that is due each second on a machine that takes longer than that.
        for tries in (0..30).rev() {
            match self.try_farmhand(arguments).await {
                Ok(out) => return out,
                Err(said) => {
                    assert!(tries > 0, "farmhand {arguments:?}: {said}");
                    eprintln!("farmhand {arguments:?}: {said}");
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        unreachable!("the last try returns or panics")
    }

    /// The same once.
    ///
    /// # Errors
    /// What it says when it fails.
    pub async fn try_farmhand(&self, arguments: &[&str]) -> Result<String, String> {
        let url = self.servers.url().await;
        let out = Command::new(farmhand())
            .args(arguments)
            .env("FARMHAND_DATABASE_URL", &url)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .expect("farmhand starts");
        let said = if out.status.success() {
            &out.stdout
        } else {
            &out.stderr
        };
        let said = String::from_utf8_lossy(said).into_owned();
        if out.status.success() { Ok(said) } else { Err(said) }
    }

    /// A connection of the harness's own to the primary, unless it does not answer in time.
    pub async fn client(&self) -> Option<Client> {
        let url = self.servers.url_now()?;
        let connect = crate::pg::try_connect(&url);
        tokio::time::timeout(Duration::from_secs(3), connect)
            .await
            .ok()?
            .ok()
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
            if !site.is_wanted() {
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

/// For all agents to have their first sessions.
const READY: Duration = Duration::from_secs(120);

const PREFIX: &str = "fh-chaos-farm-";
/// Locked for as long as the harness lives: its number may mean nothing to a harness in another PID namespace.
const ALIVE: &str = "alive";

/// Removes what a harness that was killed could not: the processes went with it, its directory stayed. One that
/// was kept on purpose has another name by then.
fn sweep() {
    let entries = std::fs::read_dir("/tmp").into_iter().flatten().flatten();
    for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX)) {
        let alive = File::open(entry.path().join(ALIVE));
        if alive.is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn lock(dir: &Path) -> File {
    let file = File::create(dir.join(ALIVE)).expect("a file in the farm's directory");
    file.lock().expect("nobody else's file");
    file
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
    lease: Duration,
    database: bool,
    other_address: Option<[u64; 2]>,
    what: String,
}

impl Doing {
    pub fn begin(node: Option<&Site>, database: bool, what: String) -> Self {
        Self {
            from: boot_ns(),
            node: node.map(|s| s.name.clone()),
            lease: node.map_or(Duration::ZERO, Site::longest_lease),
            database,
            other_address: None,
            what,
        }
    }

    /// What must be waited for after it.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub fn from(&self) -> u64 {
        self.from
    }

    /// There was nothing to hit until now.
    pub fn begins_now(&mut self) {
        self.from = boot_ns();
    }

    /// Its node was there under its other address from then until now.
    pub fn had_other_address(&mut self, since: u64) {
        self.other_address = Some([since, boot_ns()]);
    }

    pub fn over(self, field: &Field) {
        field.done.lock().expect("no panic under it").push(Done {
            from: self.from,
            to: boot_ns(),
            node: self.node,
            lease: self.lease,
            database: self.database,
            other_address: self.other_address,
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
