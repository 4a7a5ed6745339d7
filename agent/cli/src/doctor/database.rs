//! Judging what the database said.

use std::time::Duration;

use farmhand_store::migrate::ENCODING;
use farmhand_store::survey::{Farm, Server, Snapshot};

use super::availability::{lag, pooler, standby};
use super::{Check, Level};

/// What a connection of an agent adds to the server's: renewals and listening, and the pool in a rush.
const AGENT_CONNECTIONS: i64 = 5;
const OLDEST_VERSION: i32 = 150_000;
const SNAPSHOT_SECONDS: f64 = 300.0;
const SNAPSHOT_TRANSACTIONS: i64 = 1_000_000;

/// How the connection looked from this side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// From before connecting until the survey's answer, on this machine's monotonic clock.
    pub connected_for: Duration,
    pub round_trip: Duration,
    /// Two open connections were answered by one server process.
    pub shared_backend: bool,
    /// This machine's clock minus the database's, in seconds, known to half a round trip.
    pub clock_offset: f64,
}

/// The server, whatever database is in it.
pub(crate) fn server(server: &Server, link: &Link) -> Vec<Check> {
    vec![
        version(server),
        encoding(server),
        durability(server),
        synchronous_commit(server),
        standby(server),
        lag(server),
        clock(link),
        snapshot(server.oldest_snapshot.as_ref()),
        pooler(server, link),
        connections(server),
    ]
}

fn version(server: &Server) -> Check {
    if server.version_num >= OLDEST_VERSION {
        return Check::ok("version", format!("PostgreSQL {}", server.version));
    }
    Check::bad(
        Level::Failure,
        "version",
        format!("PostgreSQL {}", server.version),
        "the schema needs what version 15 brought",
        "upgrade to PostgreSQL 15 or newer",
    )
}

fn encoding(server: &Server) -> Check {
    if server.encoding == ENCODING {
        return Check::ok("encoding", ENCODING);
    }
    Check::bad(
        Level::Failure,
        "encoding",
        server.encoding.as_str(),
        "texts that are not ASCII are cut within a character or cannot be stored",
        "make another database: CREATE DATABASE … ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0",
    )
}

fn durability(server: &Server) -> Check {
    match (server.fsync, server.full_page_writes) {
        (true, true) => Check::ok("durability", "fsync and full_page_writes are on"),
        (false, _) => Check::bad(
            Level::Failure,
            "durability",
            "fsync is off",
            "a crash of the database's machine can lose or damage everything, the leases first",
            "set fsync = on",
        ),
        (true, false) => Check::bad(
            Level::Warning,
            "durability",
            "full_page_writes is off",
            "a crash of the database's machine can damage pages that were half written",
            "set full_page_writes = on, unless the file system writes pages atomically",
        ),
    }
}

fn synchronous_commit(server: &Server) -> Check {
    let found = format!("synchronous_commit = {}", server.synchronous_commit);
    match server.synchronous_commit.as_str() {
        "off" => Check::bad(
            Level::Failure,
            "synchronous commit",
            found,
            "a crash of the database forgets claims and finishes that agents were told of: runs happen twice",
            "set synchronous_commit = on, at least for Farmhand's role (ALTER ROLE … SET)",
        ),
        "remote_write" if !server.synchronous_standby_names.is_empty() => Check::bad(
            Level::Note,
            "synchronous commit",
            found,
            "a standby confirms before its disk has it: losing both machines at once can forget finishes",
            "set synchronous_commit = on for Farmhand's role when that matters",
        ),
        "local" if !server.synchronous_standby_names.is_empty() => Check::bad(
            Level::Warning,
            "synchronous commit",
            found,
            "the synchronous standby is not waited for: a failover can forget finishes that agents were told of",
            "set synchronous_commit = on for Farmhand's role",
        ),
        _ => Check::ok("synchronous commit", found),
    }
}

fn clock(link: &Link) -> Check {
    let uncertain = link.round_trip.as_secs_f64() / 2.0;
    let found = format!(
        "{:+.3} s against the database, ± {uncertain:.3} s",
        link.clock_offset
    );
    // No decision compares the two clocks; people who compare times do.
    let level = match link.clock_offset.abs() - uncertain {
        ..=1.0 => return Check::ok("clock", found),
        ..=60.0 => Level::Note,
        _ => Level::Warning,
    };
    Check::bad(
        level,
        "clock",
        found,
        "jobs fire by the database's clock; times in logs of this machine tell another story",
        "run an NTP client here and on the database's machine",
    )
}

fn snapshot(oldest: Option<&Snapshot>) -> Check {
    let Some(held) = oldest else {
        return Check::ok("old snapshots", "none");
    };
    let age = held.seconds.map_or_else(
        || format!("{} transactions", held.transactions),
        |seconds| format!("{seconds:.0} s, {} transactions", held.transactions),
    );
    let found = format!(
        "the oldest is {age} old; most is kept by: {} ({})",
        held.what, held.who
    );
    let old = held.seconds.is_some_and(|s| s > SNAPSHOT_SECONDS) || held.transactions > SNAPSHOT_TRANSACTIONS;
    if !old {
        return Check::ok("old snapshots", found);
    }
    Check::bad(
        Level::Warning,
        "old snapshots",
        found,
        "dead rows cannot be removed while it lasts: claiming gets slower and the database grows",
        "end that transaction, or drop that slot",
    )
}

fn connections(server: &Server) -> Check {
    let free = i64::from(server.max_connections) - server.connections;
    let found = format!("{} of {} are in use", server.connections, server.max_connections);
    if free >= 2 * AGENT_CONNECTIONS {
        return Check::ok("connections", found);
    }
    Check::bad(
        Level::Warning,
        "connections",
        found,
        format!(
            "an agent takes 2 connections, up to {AGENT_CONNECTIONS} in a rush; one without any lets its lease end"
        ),
        "raise max_connections, or put a pooler in between",
    )
}

pub(crate) fn farm(farm: &Farm, own_version: &str) -> Vec<Check> {
    vec![versions(farm, own_version)]
}

fn versions(farm: &Farm, own: &str) -> Check {
    let list = farm.versions.join(", ");
    if farm.versions.iter().all(|version| version == own) {
        return Check::ok(
            "agents",
            format!("{} open, none of another version", farm.open_nodes),
        );
    }
    Check::bad(
        Level::Note,
        "agents",
        format!("{} open, of versions {list}; this is {own}", farm.open_nodes),
        "newer keys of job files are not honoured by older agents",
        "finish the upgrade",
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn good() -> (Server, Link) {
        let server = Server {
            version_num: 150_018,
            version: "15.18".into(),
            encoding: "UTF8".into(),
            synchronous_commit: "on".into(),
            synchronous_standby_names: "a".into(),
            synchronous_standbys: 1,
            standbys: 1,
            hidden_standbys: 0,
            standby_lag_bytes: Some(0),
            fsync: true,
            full_page_writes: true,
            max_connections: 100,
            connections: 10,
            now: jiff::Timestamp::UNIX_EPOCH,
            backend_age_seconds: 0.01,
            oldest_snapshot: None,
        };
        let link = Link {
            connected_for: Duration::from_millis(20),
            round_trip: Duration::from_millis(2),
            shared_backend: false,
            clock_offset: 0.0,
        };
        (server, link)
    }

    fn level(check: &str, change: impl Fn(&mut Server, &mut Link)) -> Level {
        let (mut it, mut link) = good();
        change(&mut it, &mut link);
        let checks = server(&it, &link);
        checks.into_iter().find(|c| c.check == check).unwrap().level
    }

    #[test]
    fn a_good_server_is_all_ok() {
        let (it, link) = good();
        assert_eq!(super::super::worst(&server(&it, &link)), Level::Ok);
    }

    #[test]
    fn asynchronous_commits_are_refused() {
        assert_eq!(
            level("synchronous commit", |s, _| s.synchronous_commit = "off".into()),
            Level::Failure
        );
        assert_eq!(
            level("synchronous commit", |s, _| s.synchronous_commit = "local".into()),
            Level::Warning
        );
        assert_eq!(
            level("synchronous commit", |s, _| s.synchronous_commit =
                "remote_apply".into()),
            Level::Ok
        );
    }

    #[test]
    fn an_old_server_and_one_without_fsync_are_refused() {
        assert_eq!(level("version", |s, _| s.version_num = 140_009), Level::Failure);
        assert_eq!(level("durability", |s, _| s.fsync = false), Level::Failure);
    }

    #[test]
    fn another_encoding_than_utf8_is_refused() {
        assert_eq!(
            level("encoding", |s, _| s.encoding = "SQL_ASCII".into()),
            Level::Failure
        );
    }

    #[test]
    fn a_clock_is_judged_by_what_is_certain_about_it() {
        assert_eq!(level("clock", |_, l| l.clock_offset = -3.0), Level::Note);
        assert_eq!(level("clock", |_, l| l.clock_offset = 3600.0), Level::Warning);
        assert_eq!(
            level("clock", |_, l| (l.clock_offset, l.round_trip) =
                (3.0, Duration::from_secs(5))),
            Level::Ok
        );
    }

    #[test]
    fn a_snapshot_is_old_by_time_or_by_transactions() {
        let held = |seconds, transactions| {
            move |s: &mut Server, _: &mut Link| {
                s.oldest_snapshot = Some(Snapshot {
                    what: "session".into(),
                    who: "psql".into(),
                    transactions,
                    seconds,
                });
            }
        };
        assert_eq!(level("old snapshots", held(Some(10.0), 5)), Level::Ok);
        assert_eq!(level("old snapshots", held(Some(301.0), 5)), Level::Warning);
        assert_eq!(level("old snapshots", held(None, 1_000_001)), Level::Warning);
    }

    #[test]
    fn agents_of_another_version_are_a_note() {
        let it = Farm {
            open_nodes: 3,
            versions: vec!["0.1.0".into()],
        };
        let levels = |own| farm(&it, own).iter().map(|c| c.level).collect::<Vec<_>>();
        assert_eq!(levels("0.1.0"), [Level::Ok]);
        assert_eq!(levels("0.2.0"), [Level::Note]);
    }
}
