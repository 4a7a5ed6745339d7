//! Two PostgreSQL servers, one of them the other's synchronous standby, and what happens to them.

use std::net::SocketAddr;
use std::time::Duration;

use crate::pg::Client;

use super::place::{HUB, hub};
use crate::outside::Pooler;
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
        admin.exec("SELECT pg_reload_conf()").await;
        let mut servers = vec![first];
        if with_standby {
            let standby = servers[0].replica_with(STANDBY, options).await;
            servers[0].wait_for_replica(STANDBY).await;
            servers.push(standby);
        }
        let poolers = if with_poolers {
            servers.iter().map(|s| pooler(hub(s.port()))).collect()
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
            self.poolers.iter().map(|p| hub(p.port())).collect()
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

/// Where all agents reach it.
pub(super) fn pooler(server: SocketAddr) -> Pooler {
    let everywhere = format!("{HUB},127.0.0.1");
    let settings = [
        ("listen_addr", everywhere.as_str()),
        ("default_pool_size", "20"),
        ("server_login_retry", "1"),
        ("server_fast_close", "1"),
        ("query_wait_timeout", "10"),
        ("tcp_keepidle", "10"),
        ("tcp_keepintvl", "3"),
        ("tcp_keepcnt", "3"),
    ];
    Pooler::start(server, &settings)
}
