//! Where the database is and how to reach it: a URL or `key=value` string, made strict.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::error::StoreError;
use super::files::AsRoot;
use super::hosts::no_server;
use super::options::{self, Secured};
use super::password::{Login, Password};
use super::tls::Tls;

/// A connection whose other end has acknowledged nothing for so long is given up.
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);

/// Where a URL came from: a command line is readable by everybody on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordIn {
    /// Environment, file or terminal: a password in the URL is fine.
    Allowed,
    /// Command line: a password in the URL is refused.
    Refused,
}

/// Everything that opening and using connections depends on.
#[derive(Clone)]
pub struct DbConfig {
    /// Bound of every statement and of every transaction, kept by dropping the connection.
    pub(crate) statement_timeout: Duration,
    /// Bound of a whole connect: name, socket, TLS, authentication, session check, over all hosts.
    pub connect_timeout: Duration,
    /// Connections at most; at rest it is one.
    pub(crate) max_pool: usize,
    /// Whether dedicated connections LISTEN. Everything works without, only later.
    pub listen: bool,
    /// Transactions only read, and the server ends a statement after this.
    pub(crate) read_only: Option<Duration>,
    pub(crate) pg: tokio_postgres::Config,
    pub(crate) password: Password,
    /// Without: no TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) as_root: Option<AsRoot>,
    /// All its servers are on this machine.
    pub(crate) local: bool,
    /// Of several servers the one to ask first: that which took the last connection, unless it gave no answer since. At the
    /// beginning none.
    pub(crate) last: Arc<AtomicUsize>,
    /// Cleared when a statement was gone that a pooler keeps: nothing is prepared behind one any more.
    pub(crate) kept: Arc<AtomicBool>,
}

impl std::fmt::Debug for DbConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbConfig")
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

impl DbConfig {
    /// Reads `postgresql://…` or `host=… dbname=…`, with the options of tokio-postgres and besides them
    /// `sslmode=verify-full`, `sslrootcert`, `sslcert`, `sslkey` and `passfile`.
    ///
    /// Servers that are not on this machine are reached by TLS with the host's name verified unless the
    /// string says `sslmode=disable`; `sslmode=prefer` is refused. Without TLS no password leaves this machine in any
    /// form from which it could be guessed.
    /// Errors: `StoreError::Config` says what is wrong with the string, never repeating a password.
    pub fn from_url(url: &str, password: PasswordIn) -> Result<Self, StoreError> {
        Self::of(url, password, Login::Own)
    }

    /// The same for any of an agent's logins; the password of each has variables of its own.
    /// Errors: As [`Self::from_url`].
    pub fn for_login(url: &str, login: Login) -> Result<Self, StoreError> {
        Self::of(url, PasswordIn::Allowed, login)
    }

    fn of(url: &str, password: PasswordIn, login: Login) -> Result<Self, StoreError> {
        let (rest, extra) = options::split(url)?;
        let mut pg: tokio_postgres::Config = rest
            .parse()
            .map_err(|e: tokio_postgres::Error| StoreError::Config(super::error::chain(&e)))?;
        if password == PasswordIn::Refused && pg.get_password().is_some() {
            return Err(StoreError::Config(
                "a password on the command line is readable by everybody on this machine; put the URL into \
                 FARMHAND_DATABASE_URL, or the password into a PGPASSFILE"
                    .to_owned(),
            ));
        }
        if pg.get_hosts().is_empty() && pg.get_hostaddrs().is_empty() {
            pg.host_path("/var/run/postgresql");
        }
        if pg.get_hosts().is_empty() {
            return Err(StoreError::Config(
                "hostaddr says where the server is and not who it is: name its host too".to_owned(),
            ));
        }
        let local = pg.get_hosts().iter().all(is_local) && pg.get_hostaddrs().iter().all(IpAddr::is_loopback);
        let secured = extra.secured(local)?;
        if pg.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(StoreError::Config(
                "target_session_attrs=read-only cannot work".to_owned(),
            ));
        }
        pg.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if pg.get_application_name().is_none() {
            pg.application_name("farmhand");
        }
        let password = Password::find(&mut pg, extra.passfile.clone(), login)?;
        let tls = match secured {
            Secured::Verified | Secured::Chain => {
                pg.ssl_mode(SslMode::Require);
                let name = secured == Secured::Verified;
                Some(Arc::new(Tls::new(extra.tls_files(secured)?, name)?))
            }
            Secured::Plain => {
                pg.ssl_mode(SslMode::Disable);
                None
            }
        };
        let mut config = Self {
            statement_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            max_pool: 4,
            listen: true,
            read_only: None,
            pg,
            password,
            tls,
            as_root: None,
            local,
            last: no_server(),
            kept: Arc::new(AtomicBool::new(true)),
        };
        config.bound_sockets();
        Ok(config)
    }

    /// Sets the bounds, and the socket's own to match: a statement longer than `statement`, a connect
    /// longer than `connect` is given up.
    pub fn with_timeouts(mut self, statement: Duration, connect: Duration) -> Self {
        self.statement_timeout = statement;
        self.connect_timeout = connect;
        self.bound_sockets();
        self
    }

    /// Names the connections in `pg_stat_activity`.
    pub fn with_application_name(mut self, name: &str) -> Self {
        self.pg.application_name(name);
        self
    }

    /// For a password that was asked for on a terminal.
    pub fn with_password(mut self, password: &str) -> Self {
        self.pg.password(password);
        self.password = Password::given();
        self
    }

    /// For an agent that gives its rights away: how its files are read from then on, which only root may be able to read.
    pub fn with_files_read(mut self, as_root: AsRoot) -> Self {
        self.as_root = Some(as_root);
        self
    }

    /// The files that are read again for each connection: of the password, the trusted root, the client's certificate, and its
    /// key.
    pub fn files(&self) -> [Option<PathBuf>; 4] {
        let [root, cert, key] = self.tls.as_ref().map(|tls| tls.files()).unwrap_or_default();
        [self.password.file().map(PathBuf::from), root, cert, key]
    }

    /// With so many connections at most.
    pub fn with_max_pool(mut self, connections: usize) -> Self {
        self.max_pool = connections;
        self
    }

    /// Whether a connection listens for notifications; without it changes are found by polling alone.
    pub fn with_listen(mut self, listen: bool) -> Self {
        self.listen = listen;
        self
    }

    /// For connections that only read: the server refuses writes, and ends a statement that takes longer.
    pub(crate) fn with_read_only(mut self, limit: Duration) -> Self {
        self.read_only = Some(limit);
        self
    }

    /// Host, port and database for people; never a password.
    pub fn target(&self) -> String {
        let ports = self.pg.get_ports();
        let hosts: Vec<String> = self
            .pg
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(i, host)| {
                let port = ports.get(i).or(ports.first()).copied().unwrap_or(5432);
                match host {
                    Host::Tcp(name) => format!("{name}:{port}"),
                    Host::Unix(path) => format!("{}:{port}", path.display()),
                }
            })
            .collect();
        format!("{}/{}", hosts.join(","), self.pg.get_dbname().unwrap_or_default())
    }

    /// Whether anybody in between can read and change what goes to the server and comes from it.
    pub fn is_exposed(&self) -> bool {
        !self.local && self.tls.is_none()
    }

    fn bound_sockets(&mut self) {
        // Per host and address, so that the second host gets its turn within the whole bound.
        let targets = u32::try_from(self.pg.get_hosts().len().max(1)).unwrap_or(1);
        // A name may have two addresses, of which the first swallows everything.
        let is_name = |host: &Host| matches!(host, Host::Tcp(name) if name.parse::<IpAddr>().is_err());
        let named = self.pg.get_hostaddrs().is_empty() && self.pg.get_hosts().iter().any(is_name);
        let addresses = if named { 2 } else { 1 };
        self.pg
            .connect_timeout(self.connect_timeout / (targets * addresses));
        // What a network swallows is sent again after ever longer pauses. A new connection is there sooner.
        self.pg
            .tcp_user_timeout(self.statement_timeout.min(UNACKNOWLEDGED));
        self.pg.keepalives(true);
        self.pg.keepalives_idle(Duration::from_secs(10));
        self.pg.keepalives_interval(Duration::from_secs(3));
        self.pg.keepalives_retries(3);
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<DbConfig, StoreError> {
        DbConfig::from_url(text, PasswordIn::Allowed)
    }

    #[test]
    fn the_second_address_of_a_name_gets_its_turn() {
        let named = url("postgresql://u@db.example/f").unwrap();
        assert_eq!(named.pg.get_connect_timeout(), Some(&(named.connect_timeout / 2)));
        let one = url("postgresql://u@127.0.0.1/f").unwrap();
        assert_eq!(one.pg.get_connect_timeout(), Some(&one.connect_timeout));
    }

    #[test]
    fn a_server_elsewhere_is_reached_by_tls_unless_told_otherwise() {
        assert_eq!(
            url("postgresql://u@db.example/f").unwrap().pg.get_ssl_mode(),
            SslMode::Require
        );
        assert_eq!(
            url("postgresql://u@db.example/f?sslmode=disable")
                .unwrap()
                .pg
                .get_ssl_mode(),
            SslMode::Disable
        );
        assert_eq!(
            url("postgresql://u@127.0.0.1/f").unwrap().pg.get_ssl_mode(),
            SslMode::Disable
        );
        assert!(url("postgresql://u@db.example/f?sslmode=prefer").is_err());
        assert!(url("host=db.example user=u sslmode=verify-full").is_ok());
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_without_repeating_it() {
        let error = DbConfig::from_url("postgresql://u:geheim@localhost/f", PasswordIn::Refused).unwrap_err();
        assert!(!error.to_string().contains("geheim"));
        assert!(url("postgresql://u:geheim@localhost/f").is_ok());
    }

    #[test]
    fn only_a_read_write_server_will_do_and_every_host_gets_its_turn() {
        let config = url("postgresql://u@127.0.0.1:1,127.0.0.1:2/f").unwrap();
        assert_eq!(
            config.pg.get_target_session_attrs(),
            TargetSessionAttrs::ReadWrite
        );
        assert_eq!(
            config.pg.get_connect_timeout(),
            Some(&(config.connect_timeout / 2))
        );
        assert_eq!(config.target(), "127.0.0.1:1,127.0.0.1:2/f");
    }

    #[test]
    fn the_debug_form_shows_no_password() {
        assert!(!format!("{:?}", url("postgresql://u:geheim@localhost/f").unwrap()).contains("geheim"));
    }
}
