//! How a connection begins: with the password and the certificates of that moment.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::{Client, Connection, Socket};

use super::config::DbConfig;
use super::error::StoreError;
use super::link::{Link, LinkStream};

impl DbConfig {
    /// Connects to its one server, which is to take no longer than `limit`.
    pub(crate) async fn log_in(
        &self,
        limit: Duration,
    ) -> Result<(Client, Connection<Socket, LinkStream>), StoreError> {
        // The rest is for the server.
        let for_command = limit.mul_f32(0.8);
        let password = self.password.now(&self.pg, self.as_root, for_command).await?;
        match self.try_with(password.as_deref()).await {
            Err(denied @ StoreError::Denied(_)) if self.password.file().is_some() => {
                // It may have been replaced since it was read.
                let again = self.password.now(&self.pg, self.as_root, for_command).await?;
                if again == password {
                    return Err(denied);
                }
                self.try_with(again.as_deref()).await
            }
            other => other,
        }
    }

    async fn try_with(
        &self,
        password: Option<&str>,
    ) -> Result<(Client, Connection<Socket, LinkStream>), StoreError> {
        let (pg, link) = self.secured(password).await?;
        let database = self.pg.get_dbname().unwrap_or_default();
        pg.connect(link)
            .await
            .map_err(|e| StoreError::from_connect(&e, database))
    }

    /// What tokio-postgres is to connect with. Its plain mode asks nobody, so the guard comes in where TLS would; there
    /// is no guard, and no need of one, for a socket of this machine's file system.
    async fn secured(&self, password: Option<&str>) -> Result<(tokio_postgres::Config, Link), StoreError> {
        let mut pg = self.pg.clone();
        password.map(|password| pg.password(password));
        let Some(tls) = &self.tls else {
            let sockets = pg.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
            if !sockets {
                pg.ssl_mode(SslMode::Require)
                    .ssl_negotiation(SslNegotiation::Direct);
            }
            let password = pg.get_password().is_some();
            return Ok((pg, Link::Guarded { password }));
        };
        let (tls, as_root) = (Arc::clone(tls), self.as_root);
        let read = tokio::task::spawn_blocking(move || tls.now(as_root)).await;
        let connector = read.map_err(|e| StoreError::Unreachable(e.to_string()))?;
        Ok((pg, Link::Tls(connector)))
    }
}
