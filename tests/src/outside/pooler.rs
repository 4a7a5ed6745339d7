//! PgBouncer in transaction mode.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Ended with this value.
pub struct Pooler {
    process: Child,
    port: u16,
    dir: TempDir,
}

impl Pooler {
    /// Before a server, with these of its settings beside or instead of the usual ones. Whoever comes is the owner there.
    ///
    /// # Panics
    /// When there is no PgBouncer.
    pub fn start(server: SocketAddr, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("farmhand-bouncer-")
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        let port = crate::ports::free_port();
        let mut ini = format!(
            "[databases]\n* = host={} port={} user=farm\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\n\
             auth_type=any\npool_mode=transaction\nmax_client_conn=5000\nunix_socket_dir=\n",
            server.ip(),
            server.port()
        );
        if Self::keeps_statements() {
            ini.push_str("max_prepared_statements=100\n");
        }
        for (name, value) in settings {
            writeln!(ini, "{name}={value}").expect("a string takes it");
        }
        std::fs::write(dir.path().join("pgbouncer.ini"), ini).expect("a file");
        crate::pg::give_to_server_user(dir.path());
        let process = run(dir.path(), port);
        Self { process, port, dir }
    }

    /// Whether this version can keep prepared statements.
    ///
    /// # Panics
    /// When there is no PgBouncer.
    pub fn keeps_statements() -> bool {
        let told = command().arg("--version").output().expect(MISSING).stdout;
        let told = String::from_utf8(told).expect("text");
        let version = told.split_whitespace().nth(1).expect("PgBouncer and its version");
        let mut parts = version
            .split('.')
            .map(|part| part.parse::<u32>().expect("a number"));
        (parts.next(), parts.next()) >= (Some(1), Some(21))
    }

    /// Ends it with all its connections, and starts it again.
    pub fn restart(&mut self) {
        self.end();
        self.process = run(self.dir.path(), self.port);
    }

    /// Of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://farm@127.0.0.1:{}/{database}", self.port)
    }

    /// The one that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.end();
    }
}

const MISSING: &str = "this needs PgBouncer: apt-get install pgbouncer";

/// The installed one, unless another is named.
fn command() -> Command {
    let program = std::env::var_os("FARMHAND_TEST_PGBOUNCER").unwrap_or_else(|| OsString::from("pgbouncer"));
    let mut command = Command::new(program);
    command.env("PATH", "/usr/sbin:/usr/bin:/bin");
    command
}

fn run(dir: &Path, port: u16) -> Child {
    let mut command = command();
    crate::pg::as_server_user(&mut command);
    // SAFETY: a plain system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let process = command
        .arg("-q")
        .arg(dir.join("pgbouncer.ini"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect(MISSING);
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(Instant::now() < deadline, "PgBouncer does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    process
}
