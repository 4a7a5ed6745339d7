//! Real PostgreSQL for tests: a fresh migrated database of one shared server ([`TestDb`]), or a server of
//! one's own to stop, kill and dress up ([`PrivateServer`]).

mod cluster;
mod private;
mod replica;
mod shared;

use std::sync::atomic::{AtomicU32, Ordering};

use farmhand_common::store::{Db, DbConfig, PasswordIn, migrate};
use tokio_postgres::{Client, NoTls};

pub use cluster::{as_server_user, give_to_server_user};
pub use private::{Options, PrivateServer};
pub use replica::url_of;
use shared::Shared;

/// The role that owns the databases: no superuser, as in a real farm, but it may create roles.
const OWNER: &str = "farm";
const ADMIN: &str = "postgres";

/// A database of its own for one test, dropped with this value.
pub struct TestDb {
    name: String,
    server: Shared,
}

impl TestDb {
    /// A migrated database.
    pub async fn new() -> Self {
        let server = Shared::join().await;
        let template = server.template.clone();
        Self::create(server, &format!("TEMPLATE {template}")).await
    }

    /// A database without the schema.
    pub async fn empty() -> Self {
        Self::create(Shared::join().await, "").await
    }

    async fn create(server: Shared, options: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let admin = connect(&server.cluster.url("postgres", ADMIN)).await;
        admin
            .batch_execute(&format!("CREATE DATABASE {name} OWNER {OWNER} {options}"))
            .await
            .unwrap_or_else(|e| panic!("creating {name}: {e:?}"));
        Self { name, server }
    }

    /// Over the unix socket, as the owner.
    pub fn url(&self) -> String {
        self.server.cluster.url(&self.name, OWNER)
    }

    /// Over the unix socket, as superuser.
    pub fn admin_url(&self) -> String {
        self.server.cluster.url(&self.name, ADMIN)
    }

    /// Over TCP on the loopback, as the owner: for proxies.
    pub fn tcp_url(&self) -> String {
        self.server.cluster.tcp_url(&self.name, OWNER)
    }

    /// The server's TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.server.cluster.port
    }

    pub fn config(&self) -> DbConfig {
        config(&self.url())
    }

    /// The store, connected as an agent is.
    pub async fn db(&self) -> Db {
        Db::connect(&self.config()).await.expect("a migrated database")
    }

    /// A plain connection as the owner, to look behind the store's back.
    pub async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    pub async fn admin(&self) -> Client {
        connect(&self.admin_url()).await
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let (url, name) = (self.server.cluster.url("postgres", ADMIN), self.name.clone());
        // A test's own runtime may be ending or single-threaded: drop from a thread with one of its own.
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                if let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await {
                    tokio::spawn(connection);
                    let _ = client
                        .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
                        .await;
                }
            });
        });
        let _ = dropper.join();
    }
}

/// A configuration as agents use it.
pub fn config(url: &str) -> DbConfig {
    DbConfig::from_url(url, PasswordIn::Allowed).expect("a well-formed URL")
}

/// A plain connection.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .unwrap_or_else(|e| panic!("connecting to {url}: {e:?}"));
    tokio::spawn(connection);
    client
}

/// Makes the owner's role; there may be one already.
async fn make_owner(admin_url: &str) {
    let admin = connect(admin_url).await;
    admin
        .batch_execute(&format!(
            "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{OWNER}') THEN \
             CREATE ROLE {OWNER} LOGIN CREATEROLE; END IF; END $$"
        ))
        .await
        .expect("the owner's role");
}

/// Makes a database of the owner's and migrates it.
async fn make_migrated(cluster: &cluster::Cluster, name: &str) {
    let admin = connect(&cluster.url("postgres", ADMIN)).await;
    admin
        .batch_execute(&format!("CREATE DATABASE {name} OWNER {OWNER}"))
        .await
        .expect("a new database");
    migrate::migrate(&config(&cluster.url(name, OWNER)))
        .await
        .unwrap_or_else(|e| panic!("migrating: {e}"));
}
