//! Real PostgreSQL for tests: a fresh migrated database of one shared server ([`TestDb`]), or a server of
//! one's own to stop, kill and dress up ([`PrivateServer`]).

mod cluster;
mod private;
mod replace;
mod replica;
pub mod services;
mod shared;
mod sql;

use std::sync::atomic::{AtomicU32, Ordering};

use farmhand_store::{Db, DbConfig, PasswordIn, migrate, roles};
use tokio_postgres::NoTls;

pub(crate) use cluster::{all_programs, as_server_user, give_to_server_user, server_user};
pub use private::{Options, PrivateServer};
pub use replace::Copy;
pub use replica::url_of;
use shared::Shared;
pub use sql::Client;

/// The role that owns the databases: no superuser, as in a real farm, but it may create roles.
pub(crate) const OWNER: &str = "farm";
/// Logins that are members of the farm's roles, and nothing else.
const AGENT: &str = "farm_agent";
const OPERATOR: &str = "farm_operator";
pub(crate) const ADMIN: &str = "postgres";

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
        let test = Self::create(server, &format!("TEMPLATE {template}")).await;
        // A copy is another database, so claims are closed on it.
        let sql = "UPDATE farmhand.epoch SET server = farmhand.server()";
        test.client().await.exec(sql).await;
        test
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

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the server wrote about this database; other tests write there, too.
    pub fn log(&self) -> String {
        let all = std::fs::read(self.server.cluster.log()).unwrap_or_default();
        let named = format!(" {} ", self.name);
        let text = String::from_utf8_lossy(&all);
        text.lines()
            .filter(|line| line.contains(&named))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Over the unix socket, as the owner.
    pub fn url(&self) -> String {
        self.server.cluster.url(&self.name, OWNER)
    }

    /// Over the unix socket, as a member of the role for agents.
    pub fn agent_url(&self) -> String {
        self.server.cluster.url(&self.name, AGENT)
    }

    /// Over the unix socket, as a member of the role for people who run the farm.
    pub fn operator_url(&self) -> String {
        self.server.cluster.url(&self.name, OPERATOR)
    }

    /// Over the unix socket, as any role.
    pub fn url_as(&self, role: &str) -> String {
        self.server.cluster.url(&self.name, role)
    }

    /// Over the unix socket, as superuser.
    pub fn admin_url(&self) -> String {
        self.server.cluster.url(&self.name, ADMIN)
    }

    /// Over TCP on the loopback, as the owner: for proxies.
    pub fn tcp_url(&self) -> String {
        self.server.cluster.tcp_url(&self.name, OWNER)
    }

    /// Likewise as an agent.
    pub fn agent_tcp_url(&self) -> String {
        self.server.cluster.tcp_url(&self.name, AGENT)
    }

    /// The server's TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.server.cluster.port
    }

    pub fn config(&self) -> DbConfig {
        config(&self.url())
    }

    /// The store, connected as the owner.
    pub async fn db(&self) -> Db {
        Db::connect(&self.config()).await.expect("a migrated database")
    }

    /// The store, connected as an agent is.
    pub async fn agent_db(&self) -> Db {
        Db::connect(&config(&self.agent_url()))
            .await
            .expect("a migrated database")
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
                if let Ok(client) = try_connect(&url).await {
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
    let client = try_connect(url).await;
    client.unwrap_or_else(|e| panic!("connecting to {url}: {e:?}"))
}

/// The same of a server that may not answer.
pub async fn try_connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(Client(client))
}

/// Makes the owner's role, and logins for the farm's other roles; there may be some already. From PostgreSQL 16 on the owner
/// has of them what it would have if it had made them. On a service the owner is the login that its customers get.
pub(crate) async fn make_owner(url: impl Fn(&str, &str) -> String) {
    // What is denied there is denied in each database that is made from now on.
    let admin = connect(&url("template1", ADMIN)).await;
    let service = services::chosen();
    if let Some(service) = &service {
        let known = admin.query_opt("SELECT FROM pg_roles WHERE rolname = $1", &[&OWNER]);
        if known.await.expect("a list of roles").is_none() {
            admin
                .batch_execute(&services::set_up(service, OWNER))
                .await
                .unwrap_or_else(|e| panic!("{service}: {e:?}"));
        }
    }
    let mut sql = format!(
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{OWNER}') THEN \
         CREATE ROLE {OWNER} LOGIN CREATEROLE; END IF; END $$;"
    );
    for kind in roles::KINDS {
        let (group, login) = (format!("{}_{kind}", roles::PREFIX), format!("{OWNER}_{kind}"));
        sql.push_str(&format!(
            "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{group}') THEN \
             CREATE ROLE {group}; END IF; \
             IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{login}') THEN \
             CREATE ROLE {login} LOGIN IN ROLE {group}; END IF; \
             IF current_setting('server_version_num')::int >= 160000 THEN \
             EXECUTE 'GRANT {group} TO {OWNER} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE'; END IF; END $$;"
        ));
    }
    if service.is_none() {
        // To see who waits for whom; agents, to see who holds a snapshot open.
        sql.push_str(&format!("GRANT pg_read_all_stats TO {OWNER}, {AGENT};"));
    }
    admin.exec(&sql).await;
}

/// Makes a database of the owner's and migrates it. Tables that the owner makes in `public` are open to agents and
/// operators, as people grant them for table jobs.
pub(crate) async fn make_migrated(url: impl Fn(&str, &str) -> String, name: &str) {
    let admin = connect(&url("postgres", ADMIN)).await;
    admin.exec(&format!("CREATE DATABASE {name} OWNER {OWNER}")).await;
    migrate::migrate(&config(&url(name, OWNER)))
        .await
        .unwrap_or_else(|e| panic!("migrating: {e}"));
    let owner = connect(&url(name, OWNER)).await;
    owner
        .exec(&format!(
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE ON TABLES TO {AGENT}, {OPERATOR}"
        )).await;
}
