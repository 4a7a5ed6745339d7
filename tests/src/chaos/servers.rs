//! The farm's database: two servers of the harness's own, or three that Patroni keeps.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::pg::Client;

use super::pair::Pair;
use super::patroni::Patroni;
use super::plan::{Fault, Shape};
use crate::pg::{ADMIN, OWNER, connect};

pub enum Servers {
    Pair(tokio::sync::Mutex<Pair>),
    Patroni(Patroni),
}

impl Servers {
    /// With `dir` for what Patroni's members keep.
    pub async fn start(shape: &Shape, dir: &Path) -> Self {
        if shape.patroni > 0 {
            return Self::Patroni(Patroni::start(dir, shape.pgbouncer).await);
        }
        let pair = Pair::start(shape.failovers, shape.pgbouncer).await;
        Self::Pair(tokio::sync::Mutex::new(pair))
    }

    /// Where agents reach each server, in a fixed order.
    pub async fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Pair(pair) => pair.lock().await.addresses(),
            Self::Patroni(cluster) => cluster.addresses(),
        }
    }

    /// Of whichever server takes writes, past every pooler and proxy, as the owner.
    pub async fn url(&self) -> String {
        match self {
            Self::Pair(pair) => pair.lock().await.url(),
            Self::Patroni(cluster) => cluster.url("farmhand", OWNER),
        }
    }

    /// The same, unless the primary is being replaced.
    pub fn url_now(&self) -> Option<String> {
        match self {
            Self::Pair(pair) => Some(pair.try_lock().ok()?.url()),
            Self::Patroni(cluster) => Some(cluster.url("farmhand", OWNER)),
        }
    }

    /// A superuser's connection to the primary.
    pub async fn admin(&self) -> Client {
        match self {
            Self::Pair(pair) => pair.lock().await.admin().await,
            Self::Patroni(cluster) => connect(&cluster.url("farmhand", ADMIN)).await,
        }
    }

    /// Whether these servers know such a fault.
    pub async fn happen(&self, fault: Fault, lasts: Duration) -> bool {
        let pair = match self {
            Self::Pair(pair) => pair,
            Self::Patroni(cluster) => return cluster.happen(fault, lasts).await,
        };
        let mut pair = pair.lock().await;
        match fault {
            Fault::DatabaseRestart => pair.restart(lasts).await,
            Fault::DatabaseCrash => pair.crash(lasts).await,
            Fault::DatabaseFrozen => pair.freeze(lasts).await,
            Fault::Failover => pair.fail_over(lasts).await,
            _ => return false,
        }
        true
    }
}
