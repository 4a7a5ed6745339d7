//! PgBouncer in transaction mode before a server of this machine.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Ended with this value.
pub struct Pooler {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Pooler {
    /// Listens on a port of its own and keeps up to `connections` to the server on `port`.
    ///
    /// # Panics
    /// When there is no PgBouncer.
    pub fn start(port: u16, connections: usize) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("farmhand-bouncer-")
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        let own = crate::ports::free_port();
        let ini = format!(
            "[databases]\n* = host=127.0.0.1 port={port}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={own}\n\
             auth_type=trust\nauth_file={dir}/users\npool_mode=transaction\ndefault_pool_size={connections}\n\
             max_client_conn=5000\nunix_socket_dir=\n",
            dir = dir.path().display(),
        );
        std::fs::write(dir.path().join("pgbouncer.ini"), ini).expect("a file");
        std::fs::write(dir.path().join("users"), "\"farm\" \"\"\n").expect("a file");
        crate::pg::give_to_server_user(dir.path());
        // Another version than the installed one.
        let program = std::env::var_os("FARMHAND_TEST_PGBOUNCER").unwrap_or_else(|| "pgbouncer".into());
        let mut command = Command::new(program);
        crate::pg::as_server_user(&mut command);
        let process = command
            .arg(dir.path().join("pgbouncer.ini"))
            .env("PATH", "/usr/sbin:/usr/bin:/bin")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this needs PgBouncer: apt-get install pgbouncer");
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", own)).is_err() {
            assert!(Instant::now() < deadline, "PgBouncer does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self {
            process,
            port: own,
            _dir: dir,
        }
    }

    /// Of a database behind it, as the owner.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://farm@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
