//! A server for one test alone: it may be stopped, killed, restarted, and run under a wrapper.

use std::os::unix::process::CommandExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use farmhand_common::store::{Db, DbConfig};
use tempfile::TempDir;
use tokio_postgres::Client;

use super::cluster::Cluster;
use super::{ADMIN, OWNER, config, connect, make_migrated, make_owner};

const START: Duration = Duration::from_secs(30);

/// How a private server differs from a plain one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A program and its first arguments to run the server under, e.g. `faketime -f +1h`.
    pub wrapper: Vec<String>,
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
    exit: Receiver<()>,
}

impl PrivateServer {
    pub async fn start(options: Options) -> Self {
        let mut server = Self::empty(options);
        server.cluster.init();
        server.restart_stopped();
        make_owner(&server.cluster.url("postgres", ADMIN)).await;
        make_migrated(&server.cluster, "farmhand").await;
        server
    }

    /// A hot standby of `primary`.
    pub(super) fn copy_of(primary: &Self, name: &str, options: Options) -> Self {
        let mut server = Self::empty(options);
        server.cluster.copy_of(&primary.cluster, name);
        server.restart_stopped();
        server
    }

    fn empty(options: Options) -> Self {
        // A short path: a socket's may have 107 bytes.
        let dir = tempfile::Builder::new()
            .prefix("farmhand-pg-")
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        Self {
            cluster: Cluster::at(dir.path(), Cluster::free_port()),
            options,
            running: None,
            _dir: dir,
        }
    }

    pub fn url(&self) -> String {
        self.cluster.url("farmhand", OWNER)
    }

    pub fn tcp_url(&self) -> String {
        self.cluster.tcp_url("farmhand", OWNER)
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

    /// A signal to the postmaster alone; its backends go on.
    pub fn signal(&self, signal: i32) {
        // SAFETY: plain system call on a process of ours that is not reaped.
        unsafe { libc::kill(self.pid(), signal) };
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
        if matches!(running.exit.recv_timeout(START), Err(RecvTimeoutError::Timeout)) {
            // SAFETY: as above.
            unsafe { libc::kill(running.pid, libc::SIGKILL) };
            let _ = running.exit.recv_timeout(START);
        }
    }

    fn restart_stopped(&mut self) {
        let deadline = Instant::now() + START;
        loop {
            let running = self.spawn();
            let ready = loop {
                match running.exit.recv_timeout(Duration::from_millis(10)) {
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
        let mut arguments = self.options.wrapper.clone();
        arguments.extend(self.cluster.arguments(&settings));
        let mut command = self.cluster.logged(&arguments);
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
        Running { pid, exit }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.end(libc::SIGINT);
    }
}
