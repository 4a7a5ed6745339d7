//! The servers that a URL names, one by one: one that takes the connection and then says nothing, as a frozen primary does,
//! must not keep its standby from being asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::config::{Host, TargetSessionAttrs};

use super::config::DbConfig;
use super::error::StoreError;

/// In the place of a server's number: none has taken a connection yet.
const NO_SERVER: usize = usize::MAX;
/// Who knows no server waits for so long for one that says nothing, before the next one is asked, too.
const SILENCE: Duration = Duration::from_secs(1);

pub(super) fn no_server() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(NO_SERVER))
}

impl DbConfig {
    /// One configuration for each server, in the URL's order.
    pub fn servers(&self) -> Vec<DbConfig> {
        let count = self.pg.get_hosts().len().max(self.pg.get_hostaddrs().len());
        if count < 2 {
            return vec![self.clone()];
        }
        (0..count).map(|number| self.server(number)).collect()
    }

    /// Takes a standby too: for looking at it.
    #[must_use]
    pub fn of_any_kind(mut self) -> Self {
        self.pg.target_session_attrs(TargetSessionAttrs::Any);
        self
    }

    fn server(&self, number: usize) -> DbConfig {
        let from = &self.pg;
        let mut pg = tokio_postgres::Config::new();
        match from.get_hosts().get(number) {
            Some(Host::Tcp(name)) => pg.host(name),
            Some(Host::Unix(path)) => pg.host_path(path),
            None => &mut pg,
        };
        if let Some(addr) = from.get_hostaddrs().get(number) {
            pg.hostaddr(*addr);
        }
        let ports = from.get_ports();
        if let Some(port) = ports.get(number).or(ports.first()) {
            pg.port(*port);
        }
        from.get_user().map(|user| pg.user(user));
        from.get_password().map(|password| pg.password(password));
        from.get_dbname().map(|name| pg.dbname(name));
        from.get_options().map(|options| pg.options(options));
        from.get_application_name().map(|name| pg.application_name(name));
        pg.ssl_mode(from.get_ssl_mode())
            .ssl_negotiation(from.get_ssl_negotiation())
            .channel_binding(from.get_channel_binding())
            .load_balance_hosts(from.get_load_balance_hosts())
            .target_session_attrs(from.get_target_session_attrs());
        let server = DbConfig {
            pg,
            last: no_server(),
            ..self.clone()
        };
        server.with_timeouts(self.statement_timeout, self.connect_timeout)
    }

    /// The order in which to try this many servers: the one that was right last time first, unless it gave no answer since.
    pub(super) fn order(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let first = Some(self.last.load(Ordering::Relaxed))
            .filter(|last| *last != NO_SERVER)
            .unwrap_or(0);
        (0..count).map(move |n| (first + n) % count.max(1))
    }

    /// How long the server that was asked last is waited for alone. Who has not found its server yet, as each command has not, asks
    /// the next one soon. Later a server has its even share of the time: the next one may be a former primary that answers
    /// faster and confirms nothing.
    pub(super) fn patience(&self, count: usize) -> Duration {
        let share = self.connect_timeout / u32::try_from(count).unwrap_or(u32::MAX).max(1);
        if self.last.load(Ordering::Relaxed) == NO_SERVER {
            share.min(SILENCE)
        } else {
            share
        }
    }

    pub(super) fn was_right(&self, number: usize) {
        self.last.store(number, Ordering::Relaxed);
    }
}

pub(super) fn summed_up(mut refusals: Vec<(String, StoreError)>) -> StoreError {
    let away = |e: &StoreError| e.is_away() && !matches!(e, StoreError::ReadOnly);
    if refusals.len() == 1
        || refusals.iter().all(|(_, e)| matches!(e, StoreError::ReadOnly))
        // Somebody answered and denied: the primary, unless one is missing that could be it.
        || !refusals.iter().any(|(_, e)| away(e))
    {
        let telling = refusals.iter().position(|(_, e)| e.is_permanent()).unwrap_or(0);
        if telling < refusals.len() {
            return refusals.swap_remove(telling).1;
        }
    }
    let each: Vec<String> = refusals
        .iter()
        .map(|(server, e)| format!("{server}: {e}"))
        .collect();
    StoreError::Unreachable(each.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::config::PasswordIn;
    use super::*;

    #[test]
    fn each_server_keeps_everything_but_the_other_servers() {
        let url = "postgresql://u:geheim@127.0.0.1:1,127.0.0.1:2/f?application_name=x";
        let config = DbConfig::from_url(url, PasswordIn::Allowed).unwrap();
        let servers = config.servers();
        let targets: Vec<String> = servers.iter().map(DbConfig::target).collect();
        assert_eq!(targets, ["127.0.0.1:1/f", "127.0.0.1:2/f"]);
        for server in &servers {
            assert_eq!(server.pg.get_password(), Some(b"geheim".as_slice()));
            assert_eq!(server.pg.get_application_name(), Some("x"));
            assert_eq!(
                server.pg.get_target_session_attrs(),
                TargetSessionAttrs::ReadWrite
            );
        }
    }

    #[test]
    fn the_server_that_was_right_is_asked_first_by_all_who_share_the_configuration() {
        let url = "postgresql://u@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/f";
        let config = DbConfig::from_url(url, PasswordIn::Allowed).unwrap();
        let other = config.clone();
        config.was_right(1);
        assert_eq!(other.order(3).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn a_silent_server_is_waited_for_alone_only_by_who_knows_one() {
        let url = "postgresql://u@127.0.0.1:1,127.0.0.1:2/f";
        let config = DbConfig::from_url(url, PasswordIn::Allowed).unwrap();
        assert_eq!(config.patience(2), Duration::from_secs(1));
        config.was_right(0);
        assert_eq!(config.patience(2), config.connect_timeout / 2);
        let quick = DbConfig::from_url(url, PasswordIn::Allowed).unwrap();
        let quick = quick.with_timeouts(Duration::from_secs(1), Duration::from_secs(1));
        assert_eq!(quick.patience(2), Duration::from_millis(500));
    }

    #[test]
    fn a_missing_server_may_be_the_primary_and_two_standbys_are_not() {
        let away = || ("a".to_owned(), StoreError::Unreachable("refused".to_owned()));
        let standby = || ("b".to_owned(), StoreError::ReadOnly);
        let denied = || ("c".to_owned(), StoreError::Denied("no".to_owned()));
        assert!(matches!(
            summed_up(vec![standby(), standby()]),
            StoreError::ReadOnly
        ));
        assert!(matches!(
            summed_up(vec![standby(), denied()]),
            StoreError::Denied(_)
        ));
        let StoreError::Unreachable(said) = summed_up(vec![away(), standby()]) else {
            panic!("one may come back")
        };
        assert!(said.contains("a: ") && said.contains("b: "), "{said}");
    }
}
