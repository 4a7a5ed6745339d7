//! Two PostgreSQL servers, one of them the other's synchronous standby, and what happens to them.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio_postgres::Client;

use super::place::{HUB, hub};
use crate::pg::{Options, PrivateServer};

const STANDBY: &str = "standby";

/// Primary and standby; who is which changes.
pub struct Pair {
    servers: Vec<PrivateServer>,
    primary: usize,
    poolers: Vec<Pooler>,
}

impl Pair {
    /// A primary, and a synchronous standby when there are to be failovers.
    pub async fn start(with_standby: bool, with_poolers: bool) -> Self {
        let settings = [
            ("listen_addresses", "*"),
            ("max_connections", "1300"),
            ("shared_buffers", "96MB"),
            ("wal_keep_size", "64MB"),
            // A client that cannot be reached any more is not kept for two hours.
            ("tcp_keepalives_idle", "5"),
            ("tcp_keepalives_interval", "2"),
            ("tcp_keepalives_count", "3"),
            ("tcp_user_timeout", "10000"),
        ];
        let options = Options {
            settings: settings.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
            ..Options::default()
        };
        let first = PrivateServer::start(options.clone()).await;
        let hba = first.data().join("pg_hba.conf");
        let mut text = std::fs::read_to_string(&hba).expect("pg_hba.conf");
        text.push_str("\nhost all all 10.77.0.0/16 trust\n");
        std::fs::write(&hba, text).expect("pg_hba.conf");
        let admin = first.admin().await;
        admin
            .batch_execute("SELECT pg_reload_conf()")
            .await
            .expect("a reload");
        let mut servers = vec![first];
        if with_standby {
            let standby = servers[0].replica_with(STANDBY, options).await;
            servers[0].wait_for_replica(STANDBY).await;
            servers.push(standby);
        }
        let poolers = if with_poolers {
            servers.iter().map(|s| Pooler::start(hub(s.port()))).collect()
        } else {
            Vec::new()
        };
        Self {
            servers,
            primary: 0,
            poolers,
        }
    }

    /// Where agents reach each server, in a fixed order.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        if self.poolers.is_empty() {
            self.servers.iter().map(|s| hub(s.port())).collect()
        } else {
            self.poolers.iter().map(Pooler::address).collect()
        }
    }

    pub fn primary(&mut self) -> &mut PrivateServer {
        &mut self.servers[self.primary]
    }

    /// A superuser's connection to the primary.
    pub async fn admin(&self) -> Client {
        self.servers[self.primary].admin().await
    }

    /// The primary's URL over its socket: past every network.
    pub fn url(&self) -> String {
        self.servers[self.primary].url()
    }

    /// Ends every connection and the server, and starts it again after `away`.
    pub async fn restart(&mut self, away: Duration) {
        self.primary().stop();
        tokio::time::sleep(away).await;
        self.primary().restart(None);
    }

    /// kill -9 of every process of the primary.
    pub async fn crash(&mut self, away: Duration) {
        self.primary().crash();
        tokio::time::sleep(away).await;
        self.primary().restart(None);
    }

    /// Every process of the primary is stopped for a while.
    pub async fn freeze(&mut self, lasts: Duration) {
        let frozen = self.primary().family();
        for pid in &frozen {
            crate::farm::send(*pid, libc::SIGSTOP);
        }
        tokio::time::sleep(lasts).await;
        for pid in &frozen {
            crate::farm::send(*pid, libc::SIGCONT);
        }
    }

    /// The primary is killed for good, the standby takes its place after `away`, and what was the primary becomes
    /// its synchronous standby.
    pub async fn fail_over(&mut self, away: Duration) {
        self.servers[self.primary].crash();
        tokio::time::sleep(away).await;
        let (old, new) = (self.primary, 1 - self.primary);
        self.primary = new;
        // Until there is a standby again nobody could confirm; there is no second failover before.
        self.servers[new].wait_for_nobody().await;
        self.servers[new].promote().await;
        let (first, second) = self.servers.split_at_mut(1);
        let (old, new) = if old == 0 {
            (&mut first[0], &second[0])
        } else {
            (&mut second[0], &first[0])
        };
        old.rebuild_as_standby_of(new, STANDBY).await;
        new.wait_for_replica(STANDBY).await;
    }
}

/// PgBouncer in transaction mode before one server.
pub(super) struct Pooler {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Pooler {
    pub(super) fn start(server: SocketAddr) -> Self {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .into_iter()
            .find(|p| Path::new(p).exists());
        let program = program.expect("this needs PgBouncer: apt-get install pgbouncer");
        let dir = tempfile::tempdir_in("/tmp").expect("a temporary directory");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let port = crate::ports::free_port();
        let ini = format!(
            "[databases]\nfarmhand = host={} port={} dbname=farmhand user=farm\n\
             [pgbouncer]\nlisten_addr = {HUB},127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 20\nmax_client_conn = 500\nserver_login_retry = 1\n\
             server_fast_close = 1\nquery_wait_timeout = 10\nlogfile = /dev/null\n",
            server.ip(),
            server.port()
        );
        let file = dir.path().join("pgbouncer.ini");
        std::fs::write(&file, ini).expect("pgbouncer.ini");
        let mut command = Command::new(program);
        let quiet = [Stdio::null(), Stdio::null(), Stdio::null()];
        let [input, output, errors] = quiet;
        command
            .args(["-q"])
            .arg(&file)
            .stdin(input)
            .stdout(output)
            .stderr(errors);
        // SAFETY: plain system calls between fork and exec. It refuses to run as root.
        unsafe {
            command.uid(65534).gid(65534).pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().expect("pgbouncer starts");
        Self {
            child,
            port,
            _dir: dir,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        hub(self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
