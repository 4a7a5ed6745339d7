//! Streaming replicas of a private server: followed, cut off, promoted.

use std::time::{Duration, Instant};

use super::Options;
use super::private::PrivateServer;

const SOON: Duration = Duration::from_secs(30);

impl PrivateServer {
    /// A running hot standby of this server, known to it as `name`. The primary does not wait for it.
    pub async fn replica(&self, name: &str) -> PrivateServer {
        self.replica_with(name, Options::default()).await
    }

    /// The same, started with options of its own.
    pub async fn replica_with(&self, name: &str, options: Options) -> PrivateServer {
        let standby = PrivateServer::copy_of(self, name, options);
        self.is_followed_by(name).await;
        standby
    }

    /// What was a primary once throws its data away and becomes a standby of `primary`.
    pub async fn rebuild_as_standby_of(&mut self, primary: &PrivateServer, name: &str) {
        self.begin_again_as_copy_of(primary, name);
        primary.is_followed_by(name).await;
    }

    async fn is_followed_by(&self, name: &str) {
        let admin = self.admin().await;
        let sql = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"
        );
        until(&admin, &sql, 1).await;
    }

    /// No commit of this server waits for anybody, nor will when it is promoted.
    pub async fn wait_for_nobody(&self) {
        let admin = self.admin().await;
        for sql in [
            "ALTER SYSTEM RESET synchronous_standby_names",
            "SELECT pg_reload_conf()",
        ] {
            admin.exec(sql).await;
        }
    }

    /// From now on every commit waits for the replica `name`.
    pub async fn wait_for_replica(&self, name: &str) {
        let admin = self.admin().await;
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
        admin.exec(&set).await;
        admin.exec("SELECT pg_reload_conf()").await;
        until(
            &admin,
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'",
            1,
        )
        .await;
    }

    /// This standby gets nothing any more: what its primary commits from now on is lost with it.
    pub async fn cut_off(&self) {
        let admin = self.admin().await;
        admin.exec("ALTER SYSTEM SET primary_conninfo = ''").await;
        admin.exec("SELECT pg_reload_conf()").await;
        until(&admin, "SELECT count(*) FROM pg_stat_wal_receiver", 0).await;
    }

    /// Makes this standby a primary, with a timeline of its own.
    pub async fn promote(&self) {
        let admin = self.admin().await;
        let row = admin.query_one("SELECT pg_promote(true, 30)", &[]).await;
        assert!(row.expect("an answer").get::<_, bool>(0), "it is a primary");
    }
}

/// Waits until a count is `wanted`.
pub(super) async fn until(client: &super::Client, sql: &str, wanted: i64) {
    let deadline = Instant::now() + SOON;
    loop {
        let count: i64 = client.value(sql).await;
        if count == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{sql}: {count}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The URL of several servers of this machine, as agents get it.
pub fn url_of(servers: &[&PrivateServer]) -> String {
    let hosts: Vec<String> = servers
        .iter()
        .map(|s| format!("127.0.0.1:{}", s.port()))
        .collect();
    format!("postgresql://{}@{}/farmhand", super::AGENT, hosts.join(","))
}
