//! Patroni's members and their etcd: programs in places of their own.

use std::fs::OpenOptions;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::BOUND;
use crate::chaos::place::{Place, join};
use crate::farm::spawn_for_good;
use crate::pg::{self, ADMIN};

/// That of etcd; the members follow, above all agents.
const FIRST_PLACE: usize = 501;
const PORT: u16 = 5432;
const API: u16 = 8008;

/// In bytes: a replica that lags by more is not promoted.
pub const MAXIMUM_LAG: u64 = 1 << 20;

/// Patroni and the PostgreSQL that it keeps.
pub struct Member {
    pub name: String,
    pub service: Service,
}

/// A program in a place of its own. The kernel ends it with this process, and all that it started with it.
pub struct Service {
    pub place: Place,
    words: Vec<String>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Member {
    pub fn new(number: usize, dir: &Path, etcd: IpAddr) -> Self {
        let name = format!("db{number}");
        let state = dir.join(&name);
        let place = Place::new(FIRST_PLACE + number, &state, 1_000);
        let (home, config) = (state.join("pg"), dir.join(format!("{name}.json")));
        let inside = place.state().join("pg");
        std::fs::create_dir(&inside).expect("a directory for the server");
        pg::give_to_server_user(&inside);
        // JSON is YAML.
        std::fs::write(&config, settings(&name, place.address, &home, etcd).to_string()).expect("a file");
        let (user, group) = pg::server_user().expect("namespaces need root");
        // The server ends with Patroni, as on a machine that lost its power. Python may lie in root's home.
        let words = format!(
            "unshare --pid --fork --mount-proc setpriv --reuid {user} --regid {group} --clear-groups \
             --inh-caps +dac_read_search --ambient-caps +dac_read_search --pdeathsig KILL {} {}",
            program().display(),
            config.display()
        );
        Self {
            service: Service::new(place, &words, dir.join(format!("{name}.log"))),
            name,
        }
    }

    pub fn server(&self) -> SocketAddr {
        SocketAddr::new(self.service.place.address, PORT)
    }

    /// Status and text of what its API answers.
    pub async fn ask(&self, request: &str, body: &Value) -> Option<(u16, String)> {
        // A switchover is answered when it is over.
        let bound = Duration::from_secs(if body.is_null() { 3 } else { 60 });
        let exchange = async {
            let mut stream = TcpStream::connect((self.service.place.address, API)).await.ok()?;
            let (body, name) = (body.to_string(), &self.name);
            let length = body.len();
            let text =
                format!("{request} HTTP/1.0\r\nHost: {name}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(text.as_bytes()).await.ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.ok()?;
            let (head, body) = answer.split_once("\r\n\r\n")?;
            Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
        };
        tokio::time::timeout(bound, exchange).await.ok().flatten()
    }
}

/// The shortest times that Patroni takes, but for the bound on what etcd and the API may take on a busy machine.
fn settings(name: &str, address: IpAddr, home: &Path, etcd: IpAddr) -> Value {
    let user = json!({ "username": ADMIN });
    json!({
        "scope": "farm",
        "name": name,
        "restapi": { "listen": format!("{address}:{API}"), "connect_address": format!("{address}:{API}") },
        "etcd3": { "host": format!("{etcd}:2379") },
        "bootstrap": {
            "dcs": {
                "ttl": 20,
                "loop_wait": 2,
                "retry_timeout": 5,
                "maximum_lag_on_failover": MAXIMUM_LAG,
                "synchronous_mode": true,
                "postgresql": {
                    "use_pg_rewind": true,
                    "parameters": { "max_connections": 600, "wal_log_hints": "on", "wal_keep_size": "64MB" },
                },
            },
            "initdb": [{ "encoding": "UTF8" }, { "locale": "C.UTF-8" }, { "auth": "trust" }, "no-sync"],
        },
        "postgresql": {
            "listen": format!("{address}:{PORT}"),
            "connect_address": format!("{address}:{PORT}"),
            "data_dir": home.join("data"),
            "bin_dir": pg::all_programs(),
            "pgpass": home.join("pgpass"),
            "authentication": { "superuser": user, "replication": user, "rewind": user },
            "pg_hba": [
                "local all all trust",
                "host all all 10.77.0.0/16 trust",
                "host replication all 10.77.0.0/16 trust",
            ],
            "remove_data_directory_on_diverged_timelines": true,
            "remove_data_directory_on_rewind_failure": true,
            "parameters": {
                "unix_socket_directories": home,
                "fsync": "off",
                "shared_buffers": "64MB",
                "max_wal_size": "256MB",
                "timezone": "UTC",
                "tcp_keepalives_idle": 5,
                "tcp_keepalives_interval": 2,
                "tcp_keepalives_count": 3,
                "tcp_user_timeout": 10_000,
            },
        },
    })
}

/// What `./test` and `tests/chaos/run` make from `tests/chaos/requirements.txt`.
fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = std::path::absolute(target.join("patroni-tools/bin/patroni")).expect("a path");
    assert!(
        program.exists(),
        "{} is missing: `./test` installs it, with python3 -m venv and pip from tests/chaos/requirements.txt",
        program.display()
    );
    program
}

/// One that listens and holds nothing yet.
pub fn etcd(dir: &Path) -> Service {
    let state = dir.join("etcd");
    let place = Place::new(FIRST_PLACE, &state, 200);
    let (address, data) = (place.address, state.display());
    let words = format!(
        "etcd --log-level warn --data-dir {data}/data --listen-client-urls http://{address}:2379 \
         --advertise-client-urls http://{address}:2379 --listen-peer-urls http://127.0.0.1:2380"
    );
    let etcd = Service::new(place, &words, dir.join("etcd.log"));
    etcd.start();
    etcd
}

impl Service {
    fn new(place: Place, words: &str, log: PathBuf) -> Self {
        Self {
            place,
            words: words.split(' ').map(str::to_owned).collect(),
            log,
            child: Mutex::default(),
        }
    }

    pub fn start(&self) {
        // Its number is another process's in the next PID namespace.
        let _ = std::fs::remove_file(self.place.state().join("pg/data/postmaster.pid"));
        let open = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = open.expect("a log");
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .current_dir("/")
            .env("LC_ALL", "C.UTF-8")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .process_group(0);
        let place = self.place.descriptors();
        // SAFETY: plain system calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                join(place)
            });
        }
        *self.child.lock().expect("no panic under it") = Some(spawn_for_good(command));
    }

    /// Its processes with this in their command.
    ///
    /// # Panics
    /// When there is none.
    pub fn named(&self, text: &str) -> Vec<i32> {
        let all = self.place.inhabitants();
        let found: Vec<i32> = all
            .iter()
            .filter(|p| p.command.contains(text))
            .map(|p| p.pid)
            .collect();
        assert!(!found.is_empty(), "no {text} among {all:?}");
        found
    }

    /// Nothing of it lives when this returns.
    pub fn kill(&self) {
        let child = self.child.lock().expect("no panic under it").take();
        if let Some(mut child) = child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let patience = Instant::now() + BOUND;
        while let Some(left) = self.place.inhabitants().first() {
            assert!(Instant::now() < patience, "it lives on: {left:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}
