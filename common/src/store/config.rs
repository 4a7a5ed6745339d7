//! Where the database is and how to reach it: a URL or `key=value` string, made strict.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::StoreError;
use super::tls;

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
    pub statement_timeout: Duration,
    /// Bound of a whole connect: name, socket, TLS, authentication, session check, over all hosts.
    pub connect_timeout: Duration,
    /// Connections at most; at rest it is one.
    pub max_pool: usize,
    /// Whether dedicated connections LISTEN. Everything works without, only later.
    pub listen: bool,
    /// Transactions only read, and the server ends a statement after this.
    pub(crate) read_only: Option<Duration>,
    pub(crate) pg: tokio_postgres::Config,
    pub(crate) tls: MakeRustlsConnect,
    /// Of several servers the one that took the last connection.
    pub(crate) last: Arc<AtomicUsize>,
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
    /// `sslmode=verify-full` and `sslrootcert=FILE`.
    ///
    /// Servers that are not on this machine are reached by TLS with the host's name verified unless the
    /// string says `sslmode=disable`; `sslmode=prefer` is refused for them.
    ///
    /// # Errors
    /// `StoreError::Config` says what is wrong with the string, never repeating a password.
    pub fn from_url(url: &str, password: PasswordIn) -> Result<Self, StoreError> {
        let (rest, extra) = split_options(url)?;
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
        let local = pg.get_hosts().iter().all(is_local) && pg.get_hostaddrs().iter().all(IpAddr::is_loopback);
        let mode = extra.sslmode.as_deref();
        match mode {
            Some("disable") => pg.ssl_mode(SslMode::Disable),
            Some("require" | "verify-full" | "verify-ca") => pg.ssl_mode(SslMode::Require),
            Some("prefer" | "allow") if !local => {
                return Err(StoreError::Config(format!(
                    "sslmode={} could be downgraded by anybody in between; say verify-full, or disable to go without TLS",
                    mode.unwrap_or_default()
                )));
            }
            None if !local => pg.ssl_mode(SslMode::Require),
            None | Some("prefer" | "allow") => pg.ssl_mode(SslMode::Disable),
            Some(other) => {
                return Err(StoreError::Config(format!(
                    "sslmode {other:?} is none of disable, require, verify-full"
                )));
            }
        };
        if pg.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(StoreError::Config(
                "target_session_attrs=read-only cannot work".to_owned(),
            ));
        }
        pg.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if pg.get_application_name().is_none() {
            pg.application_name("farmhand");
        }
        if pg.get_password().is_none()
            && let Some(found) = super::passfile::lookup(&pg)
        {
            pg.password(found);
        }
        let uses_tls = pg.get_ssl_mode() == SslMode::Require;
        let mut config = Self {
            statement_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            max_pool: 4,
            listen: true,
            read_only: None,
            pg,
            tls: tls::connector(uses_tls, extra.sslrootcert.as_deref())?,
            last: Arc::default(),
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
        self
    }

    pub fn with_max_pool(mut self, connections: usize) -> Self {
        self.max_pool = connections;
        self
    }

    pub fn with_listen(mut self, listen: bool) -> Self {
        self.listen = listen;
        self
    }

    /// For connections that only read: the server refuses writes, and ends a statement that takes longer.
    pub fn with_read_only(mut self, limit: Duration) -> Self {
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

    /// Whether the server is on this machine (a unix socket or a loopback address).
    pub fn is_local(&self) -> bool {
        self.pg.get_hosts().iter().all(is_local)
    }

    fn bound_sockets(&mut self) {
        // Per host and address, so that the second host gets its turn within the whole bound.
        let targets = u32::try_from(self.pg.get_hosts().len().max(1)).unwrap_or(1);
        self.pg.connect_timeout(self.connect_timeout / targets);
        self.pg.tcp_user_timeout(self.statement_timeout);
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

#[derive(Default)]
struct Extra {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

impl Extra {
    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.sslmode = Some(value.to_owned()),
            "sslrootcert" => self.sslrootcert = Some(value.to_owned()),
            _ => return false,
        }
        true
    }
}

/// Takes out what tokio-postgres does not know: it refuses `verify-full` and has no `sslrootcert`.
fn split_options(url: &str) -> Result<(String, Extra), StoreError> {
    let mut extra = Extra::default();
    if !url.contains("://") {
        // key=value pairs; quoting matters only for values tokio-postgres reads itself.
        let kept: Vec<&str> = url
            .split_whitespace()
            .filter(|pair| {
                pair.split_once('=')
                    .is_none_or(|(k, v)| !extra.take(k, v.trim_matches('\'')))
            })
            .collect();
        let rest = if extra.sslmode.is_some() || extra.sslrootcert.is_some() {
            kept.join(" ")
        } else {
            url.to_owned()
        };
        return Ok((rest, extra));
    }
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), extra));
    };
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| StoreError::Config(format!("option {pair:?} has no value")))?;
        if !extra.take(key, &percent_decode(value)?) {
            kept.push(pair);
        }
    }
    let rest = if kept.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", kept.join("&"))
    };
    Ok((rest, extra))
}

fn percent_decode(text: &str) -> Result<String, StoreError> {
    let bad = || StoreError::Config(format!("bad percent-encoding in {text:?}"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(b) = rest.next() {
        if b != b'%' {
            bytes.push(b);
            continue;
        }
        let hex = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).ok_or_else(bad);
        let (high, low) = (hex(rest.next())?, hex(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| bad())?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<DbConfig, StoreError> {
        DbConfig::from_url(text, PasswordIn::Allowed)
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
