//! One real agent process, with its reaper and its wardens.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{SOON, local};
use crate::bin::farmhand;
use crate::chaos::place::{Place, join};
use crate::ports::free_port;
use crate::processes::{self, Process};
use crate::proxy::Proxy;

/// One agent: may be started, killed, stopped and started again.
pub struct Agent {
    pub address: String,
    pub state_dir: PathBuf,
    /// Where it serves its metrics.
    pub port: u16,
    /// Between it and its database, when the farm is proxied.
    pub network: Option<Proxy>,
    /// The binary that it is: `farmhand`, unless a test says otherwise.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Namespaces of its own, when it has any.
    pub place: Option<Place>,
    /// Where its standard error goes.
    pub log: PathBuf,
    url: String,
    child: Option<Child>,
}

impl Agent {
    pub(crate) fn new(
        dir: &Path,
        address: &str,
        url: String,
        network: Option<Proxy>,
        arguments: Vec<String>,
        env: Vec<(String, String)>,
    ) -> Self {
        Self {
            address: address.to_owned(),
            state_dir: dir.join(address),
            port: free_port(),
            network,
            program: farmhand().to_path_buf(),
            arguments,
            env,
            place: None,
            url,
            log: dir.join(format!("{address}.log")),
            child: None,
        }
    }

    pub(super) fn another(&self, dir: &Path, address: &str) -> Self {
        Self::new(
            dir,
            address,
            self.url.clone(),
            None,
            self.arguments.clone(),
            self.env.clone(),
        )
    }

    /// Another agent under the same address, with a state directory of its own, not started.
    pub fn double(&self, dir: &Path) -> Self {
        let mut double = self.another(dir, &format!("{}-double", self.address));
        double.address.clone_from(&self.address);
        double
    }

    /// The proxy between it and its database.
    ///
    /// # Panics
    /// When the farm is not proxied.
    pub fn proxy(&self) -> &Proxy {
        self.network.as_ref().expect("a proxied farm")
    }

    /// The command that starts it.
    pub fn command(&self) -> Command {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .expect("the agent's log");
        let mut command = Command::new(&self.program);
        command
            .arg("agent")
            .args(["--address", &self.address])
            .args(["--state-dir", &self.state_dir.display().to_string()])
            .args(["--listen", &local(self.port).to_string()])
            .args(&self.arguments)
            .env_remove("NOTIFY_SOCKET")
            .env_remove("INVOCATION_ID")
            .env("FARMHAND_DATABASE_URL", &self.url)
            .env("FARMHAND_LOG", "info,farmhand=debug,tokio_cron_scheduler=warn")
            .env("NO_COLOR", "1")
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // What a terminal sends to the harness is not for it.
            .process_group(0);
        let place = self.place.as_ref().map(Place::descriptors);
        // A test that is killed takes its agents along; their wardens follow when the lease ends.
        // SAFETY: a plain system call between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                place.map_or(Ok(()), join)
            });
        }
        command
    }

    /// Starts the process and waits for nothing.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.address);
        self.child = Some(spawn_for_good(self.command()));
    }

    /// Starts it and waits until it has a session.
    pub async fn start(&mut self) {
        self.spawn();
        self.ready().await;
    }

    /// Waits until it has a session.
    ///
    /// # Panics
    /// When it ends instead, or takes too long.
    pub async fn ready(&mut self) {
        self.ready_within(SOON).await;
    }

    /// The same, for one that may have to wait for the end of a lease.
    ///
    /// # Panics
    /// When it ends instead, or takes longer than `bound`.
    pub async fn ready_within(&mut self, bound: Duration) {
        let deadline = Instant::now() + bound;
        while self.get("/readyz").await.is_none_or(|(status, _)| status != 200) {
            if let Some(status) = self.exited() {
                panic!("{} ended with {status}:\n{}", self.address, self.log_tail(30));
            }
            assert!(
                Instant::now() < deadline,
                "{} is not ready:\n{}",
                self.address,
                self.log_tail(30)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// # Panics
    /// When it is not running.
    pub fn pid(&self) -> i32 {
        self.child.as_ref().expect("a running agent").id().cast_signed()
    }

    /// Started, and not known to have ended.
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub fn signal(&self, signal: i32) {
        send(self.pid(), signal);
    }

    /// SIGSTOP, effective when this returns.
    pub fn stop(&self) {
        stop(self.pid());
    }

    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// kill -9 of the agent alone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// kill -9 of the agent and its wardens.
    pub fn kill_with_wardens(&mut self) {
        self.stop();
        let wardens = self.wardens();
        for process in &wardens {
            send(process.pid, libc::SIGKILL);
        }
        self.kill();
    }

    /// kill -9 of everything that could clean up: nobody is left to end the jobs.
    pub fn kill_with_guards(&mut self) {
        // Stopped first, so that none of them acts on the others' deaths: an agent sweeps after its warden.
        self.stop();
        let all: Vec<Process> = self.reapers().into_iter().chain(self.wardens()).collect();
        for process in &all {
            stop(process.pid);
        }
        for process in &all {
            send(process.pid, libc::SIGKILL);
        }
        self.kill();
    }

    /// Makes room for a newer agent of the same state directory, on a port of its own.
    pub fn set_aside(&mut self) -> Child {
        self.port = free_port();
        self.child.take().expect("a running agent")
    }

    /// Its exit status, once it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().expect("waiting for a child")?;
        self.child = None;
        Some(status)
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end within `bound`.
    pub async fn exit(&mut self, bound: Duration) -> ExitStatus {
        let deadline = Instant::now() + bound;
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} goes on:\n{}",
                self.address,
                self.log_tail(30)
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn wardens(&self) -> Vec<Process> {
        self.named("warden")
    }

    /// What keeps root's rights for an agent that has given them up.
    pub fn helpers(&self) -> Vec<Process> {
        self.named("helper")
    }

    pub fn reapers(&self) -> Vec<Process> {
        self.named("reaper")
    }

    fn named(&self, word: &str) -> Vec<Process> {
        let (word, dir) = (format!(" {word} "), self.state_dir.display().to_string());
        let mine = |p: &Process| {
            let mut words = p.command.split(' ');
            p.command.contains(&word) && words.any(|w| w == dir)
        };
        let mut found = processes::all();
        found.retain(|p| p.state != 'Z' && mine(p));
        // Until a child executes its own program it is called as its parent is.
        let pids: Vec<i32> = found.iter().map(|p| p.pid).collect();
        found.retain(|p| !pids.contains(&p.parent));
        found
    }

    /// What it said on standard error, where a file keeps it.
    pub fn log(&self) -> String {
        if !self.log.is_file() {
            return String::new();
        }
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn log_tail(&self, lines: usize) -> String {
        let text = self.log();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Status and body of a page it serves; `None` while it does not.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        self.get_within(path, Duration::from_secs(10)).await
    }

    pub async fn get_within(&self, path: &str, bound: Duration) -> Option<(u16, String)> {
        let exchange = async {
            let mut stream = match &self.place {
                None => TcpStream::connect(local(self.port)).await.ok()?,
                Some(place) => TcpStream::from_std(place.connect(self.port).await?).ok()?,
            };
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.ok()?;
            let (head, body) = text.split_once("\r\n\r\n")?;
            let status = head.split(' ').nth(1)?.parse().ok()?;
            Some((status, body.to_owned()))
        };
        tokio::time::timeout(bound, exchange).await.ok().flatten()
    }

    /// The sum of a metric's series whose labels contain all of `labels`, as in `cause="expired"`.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let deadline = Instant::now() + SOON;
        let text = loop {
            match self.get("/metrics").await {
                Some((200, text)) => break text,
                _ => assert!(Instant::now() < deadline, "{} serves no metrics", self.address),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let fits = |line: &&str| {
            let rest = line.strip_prefix(name).filter(|r| r.starts_with(['{', ' ']));
            rest.is_some_and(|r| labels.iter().all(|l| r.contains(l)))
        };
        let values = text
            .lines()
            .filter(fits)
            .filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }

    /// Ends the agent, its wardens and their reapers, whatever state they are in.
    pub(crate) fn destroy(&mut self) {
        self.kill();
        let deadline = Instant::now() + SOON;
        while Instant::now() < deadline {
            for process in self.wardens() {
                send(process.pid, libc::SIGKILL);
            }
            // A stopped one ends what is left once it goes on, and one that has just begun starts its warden first.
            let reapers = self.reapers();
            if reapers.is_empty() {
                return;
            }
            for process in reapers {
                send(process.pid, libc::SIGCONT);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Sends a signal to a process that this test or its agents started.
pub fn send(pid: i32, signal: i32) {
    assert!(pid > 1, "a pid of one process");
    // SAFETY: a plain system call.
    unsafe { libc::kill(pid, signal) };
}

/// SIGSTOP, effective when this returns: all of its threads have stopped.
pub fn stop(pid: i32) {
    send(pid, libc::SIGSTOP);
    let deadline = Instant::now() + SOON;
    while processes::one(pid).is_some_and(|p| p.state != 'T') {
        assert!(Instant::now() < deadline, "process {pid} does not stop");
        std::thread::yield_now();
    }
}

/// The death signal follows the thread that spawned, so that thread must stay as long as the process: this one does.
pub(crate) fn spawn_for_good(command: Command) -> Child {
    type Order = (Command, Sender<Child>);
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in orders {
                let _ = answer.send(command.spawn().expect("the program starts"));
            }
        });
        Mutex::new(sender)
    });
    let (sender, answer) = channel();
    let order = (command, sender);
    spawner
        .lock()
        .expect("no panic under it")
        .send(order)
        .expect("it stays");
    answer.recv().expect("the program starts")
}
