//! A server for one test alone: it may be stopped, killed and restarted.

use std::os::unix::process::CommandExt;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::pg::Client;
use farmhand_store::{Db, DbConfig};
use tempfile::TempDir;

use super::cluster::Cluster;
use super::{ADMIN, AGENT, OPERATOR, OWNER, config, connect, make_migrated, make_owner};
use crate::ports::free_port;

const START: Duration = Duration::from_secs(30);

/// How a private server differs from a plain one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub env: Vec<(String, String)>,
    /// Settings on top of the harness's own; `fsync` is off unless set here.
    pub settings: Vec<(String, String)>,
}

/// A PostgreSQL server with a migrated database `farmhand`, ended and removed with this value, and by the
/// kernel when the test process dies.
pub struct PrivateServer {
    cluster: Cluster,
    options: Options,
    running: Option<Running>,
    // Last: removed after the server's end.
    _dir: TempDir,
}

struct Running {
    pid: i32,
    /// Only this value's owner asks; the lock makes it shareable.
    exit: Mutex<Receiver<()>>,
}

impl Running {
    fn wait(&self, bound: Duration) -> Result<(), RecvTimeoutError> {
        self.exit.lock().expect("no panic under it").recv_timeout(bound)
    }
}

impl PrivateServer {
    pub async fn start(options: Options) -> Self {
        let mut server = Self::empty(options);
        server.cluster.init();
        server.restart_stopped();
        make_owner(|database, user| server.cluster.url(database, user)).await;
        make_migrated(|database, user| server.cluster.url(database, user), "farmhand").await;
        server
    }

    /// A hot standby of `primary`.
    pub(super) fn copy_of(primary: &Self, name: &str, options: Options) -> Self {
        let mut server = Self::empty(options);
        server.cluster.copy_of(&primary.cluster, name);
        server.restart_stopped();
        server
    }

    pub(super) fn empty(options: Options) -> Self {
        // A short path: a socket's may have 107 bytes.
        let base = std::env::var_os("FARMHAND_BENCH_DIR").unwrap_or_else(|| "/tmp".into());
        let dir = tempfile::Builder::new()
            .prefix("farmhand-pg-")
            .tempdir_in(base)
            .expect("a temporary directory");
        Self {
            cluster: Cluster::at(dir.path(), free_port()),
            options,
            running: None,
            _dir: dir,
        }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn url(&self) -> String {
        self.cluster.url("farmhand", OWNER)
    }

    pub fn agent_url(&self) -> String {
        self.cluster.url("farmhand", AGENT)
    }

    pub fn operator_url(&self) -> String {
        self.cluster.url("farmhand", OPERATOR)
    }

    pub fn tcp_url(&self) -> String {
        self.cluster.tcp_url("farmhand", OWNER)
    }

    pub fn agent_tcp_url(&self) -> String {
        self.cluster.tcp_url("farmhand", AGENT)
    }

    pub fn admin_url(&self) -> String {
        self.cluster.url("farmhand", ADMIN)
    }

    pub fn port(&self) -> u16 {
        self.cluster.port
    }

    /// The postmaster's pid; 0 when it is not running.
    pub fn pid(&self) -> i32 {
        self.running.as_ref().map_or(0, |r| r.pid)
    }

    pub fn data(&self) -> std::path::PathBuf {
        self.cluster.data()
    }

    /// Gives a file to the server's user, closed to others.
    pub fn own(&self, file: &str) {
        self.cluster.own(std::path::Path::new(file));
    }

    pub fn config(&self) -> DbConfig {
        config(&self.url())
    }

    pub async fn db(&self) -> Db {
        Db::connect(&self.config()).await.expect("a migrated database")
    }

    pub async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    pub async fn admin(&self) -> Client {
        connect(&self.admin_url()).await
    }

    /// Ends connections, then the server; its data stays.
    pub fn stop(&mut self) {
        self.end(libc::SIGINT);
    }

    /// SIGKILL to the postmaster: a crash.
    pub fn kill(&mut self) {
        self.end(libc::SIGKILL);
    }

    /// The postmaster and its children.
    pub fn family(&self) -> Vec<i32> {
        let own = self.pid();
        let all = crate::processes::all().into_iter();
        let mut pids: Vec<i32> = all
            .filter(|p| own != 0 && (p.pid == own || p.parent == own))
            .map(|p| p.pid)
            .collect();
        // The postmaster first: it starts no further children.
        pids.sort_by_key(|pid| *pid != own);
        pids
    }

    /// SIGKILL to every process of the server: a machine that lost its power. Nothing of it runs when this returns.
    pub fn crash(&mut self) {
        let family = self.family();
        for pid in family.iter().filter(|pid| **pid > 1) {
            // SAFETY: plain system call; they were processes of ours a moment ago.
            unsafe { libc::kill(*pid, libc::SIGSTOP) };
        }
        // What was forked in between.
        for pid in self.family().into_iter().filter(|pid| *pid > 1) {
            // SAFETY: as above.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        self.end(libc::SIGKILL);
        let deadline = Instant::now() + START;
        let lives = |pid: &i32| crate::processes::one(*pid).is_some_and(|p| p.state != 'Z');
        while family.iter().any(lives) {
            assert!(Instant::now() < deadline, "a killed server lives on: {family:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// This server's data is thrown away; it becomes a standby of `primary`, on the same port.
    pub(super) fn begin_again_as_copy_of(&mut self, primary: &Self, name: &str) {
        self.end(libc::SIGKILL);
        std::fs::remove_dir_all(self.cluster.data()).expect("the old data");
        self.cluster.copy_of(&primary.cluster, name);
        self.restart_stopped();
    }

    /// A signal to the postmaster alone; its backends go on.
    pub fn signal(&self, signal: i32) {
        // SAFETY: plain system call on a process of ours that is not reaped.
        unsafe { libc::kill(self.pid(), signal) };
    }

    /// Has it read its files again; what they say holds for connections from now on.
    pub async fn reload(&self) {
        let admin = self.admin().await;
        let before = loaded(&admin).await;
        admin.exec("SELECT pg_sleep(0.01); SELECT pg_reload_conf()").await;
        let deadline = Instant::now() + START;
        // A fresh session has the postmaster's own time.
        while loaded(&self.admin().await).await == before {
            assert!(Instant::now() < deadline, "the server does not reload");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Starts it again after `stop` or `kill`, with other options when given.
    pub fn restart(&mut self, options: Option<Options>) {
        self.stop();
        if let Some(options) = options {
            self.options = options;
        }
        self.restart_stopped();
    }

    fn end(&mut self, signal: i32) {
        let Some(running) = self.running.take() else {
            return;
        };
        // SAFETY: plain system call; the keeper thread has not reaped it unless it ended just now.
        unsafe { libc::kill(running.pid, signal) };
        if matches!(running.wait(START), Err(RecvTimeoutError::Timeout)) {
            // SAFETY: as above.
            unsafe { libc::kill(running.pid, libc::SIGKILL) };
            let _ = running.wait(START);
        }
    }

    fn restart_stopped(&mut self) {
        let deadline = Instant::now() + START;
        loop {
            let running = self.spawn();
            let ready = loop {
                match running.wait(Duration::from_millis(10)) {
                    Err(RecvTimeoutError::Timeout) if self.cluster.is_ready() => break true,
                    Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                    _ => break false,
                }
            };
            if ready {
                self.running = Some(running);
                return;
            }
            // After a crash the old backends may still hold the shared memory for a moment.
            assert!(
                Instant::now() < deadline,
                "the server did not start:\n{}",
                self.cluster.log_tail()
            );
        }
    }

    fn spawn(&self) -> Running {
        let given: Vec<(&str, &str)> = self
            .options
            .settings
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        let mut settings = vec![("fsync", "off")];
        settings.extend(given);
        let mut command = self.cluster.logged(&self.cluster.arguments(&settings));
        command.envs(self.options.env.iter().cloned()).process_group(0);
        let parent = std::process::id();
        // SAFETY: plain system calls between fork and exec; after the change of user, which would clear it.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGQUIT);
                if libc::getppid().cast_unsigned() == parent {
                    Ok(())
                } else {
                    Err(std::io::Error::from_raw_os_error(libc::ESRCH))
                }
            });
        }
        let (started, start) = sync_channel(1);
        let (ended, exit) = sync_channel(1);
        // The death signal follows the spawning thread, so that thread waits for the server's end.
        std::thread::spawn(move || {
            let mut child = command.spawn().expect("the server program starts");
            let _ = started.send(child.id().cast_signed());
            let _ = child.wait();
            let _ = ended.send(());
        });
        let pid = start.recv().expect("the server program starts");
        Running {
            pid,
            exit: Mutex::new(exit),
        }
    }
}

async fn loaded(client: &Client) -> String {
    let row = client.query_one("SELECT pg_conf_load_time()::text", &[]).await;
    row.expect("a time").get(0)
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.end(libc::SIGINT);
    }
}
