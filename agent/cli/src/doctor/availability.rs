//! Judging what stands beside the primary, and what between it and the agents.

use std::collections::BTreeSet;

use farmhand_control::MEANWHILE;
use farmhand_store::StoreError;
use farmhand_store::survey::{Role, Server};

use super::database::Link;
use super::{Check, Level};

/// One WAL segment: a standby that follows is within it.
const LAG_BYTES: i64 = 16 << 20;

/// Whether a failover can lose what agents were told.
pub(crate) fn standby(server: &Server) -> Check {
    let named = &server.synchronous_standby_names;
    match (named.is_empty(), server.synchronous_standbys, server.standbys) {
        (true, _, 0) => Check::bad(
            Level::Note,
            "standby",
            "no standby",
            "when the primary's disk is lost, so is the farm: definitions, history and what is due",
            "add a streaming replica with synchronous_standby_names when that matters",
        ),
        (true, _, standbys) => Check::bad(
            Level::Warning,
            "standby",
            format!("{standbys} asynchronous, none synchronous"),
            "a failover to one can forget finishes that agents were told of: these runs happen again",
            "set synchronous_standby_names",
        ),
        (false, 0, _) if server.hidden_standbys > 0 => Check::bad(
            Level::Note,
            "standby",
            format!(
                "{} connected, and this role may not see of what kind",
                server.hidden_standbys
            ),
            "nobody here can say whether a failover may forget finishes",
            "GRANT pg_monitor TO Farmhand's role",
        ),
        (false, synchronous, standbys) if synchronous < waited_for(named) => Check::bad(
            Level::Warning,
            "standby",
            format!(
                "synchronous_standby_names = {named}, and {synchronous} of {standbys} connected are synchronous"
            ),
            "every commit waits for a standby that is not there: agents see a database that does not answer",
            "bring the standby back, or take it out of synchronous_standby_names",
        ),
        (false, synchronous, _) => Check::ok("standby", format!("{synchronous} synchronous")),
    }
}

/// For how many standbys each commit waits: `FIRST 2 (a, b)`, `ANY 2 (a, b)`, `2 (a, b)`; for one without a number.
fn waited_for(names: &str) -> i64 {
    let before = names.split_once('(').map_or("", |(before, _)| before);
    let number = before.split_whitespace().last();
    number.and_then(|n| n.parse().ok()).unwrap_or(1)
}

pub(crate) fn lag(server: &Server) -> Check {
    match server.standby_lag_bytes {
        None if server.standbys == 0 => Check::ok("standby lag", "no standby"),
        None => Check::ok("standby lag", "the server does not tell this role"),
        Some(bytes) if bytes <= LAG_BYTES => {
            Check::ok("standby lag", format!("at most {} KiB", bytes.max(0) >> 10))
        }
        Some(bytes) => Check::bad(
            Level::Warning,
            "standby lag",
            format!("a standby is {} MiB behind", bytes >> 20),
            "promoting it loses what it has not got, or takes as long as it needs to catch up",
            "see what holds it back (network, its disk, a conflict with queries); promote another one",
        ),
    }
}

pub(crate) fn pooler(server: &Server, link: &Link) -> Check {
    // A backend that is older than the connection was lent by somebody in between.
    let lent = server.backend_age_seconds > link.connected_for.as_secs_f64();
    if !lent && !link.shared_backend {
        return Check::ok("pooler", "none in between");
    }
    let (mode, impact) = if link.shared_backend {
        (
            "in transaction mode: two connections shared one server process",
            "hints by NOTIFY do not get through: submitted runs start up to 2.5 s later",
        )
    } else {
        (
            "in between: the server process is older than the connection",
            "if it is in transaction mode, hints by NOTIFY do not get through: submitted runs start up to 2.5 s later",
        )
    };
    Check::bad(
        Level::Note,
        "pooler",
        mode,
        impact,
        "start agents with --notify off, or connect them directly; migrate over a direct connection",
    )
}

/// The servers of a URL that names several, each with what it answered; what a URL of one server costs.
pub(crate) fn servers(answers: &[(String, Result<Role, StoreError>)], standbys: i64) -> Option<Check> {
    if answers.len() < 2 {
        return (standbys > 0).then(|| {
            Check::bad(
                Level::Note,
                "servers",
                "there is a standby, and the URL names one server",
                "agents follow a failover only if that name or address moves with the primary",
                "name all of them: postgresql://user@a,b/farmhand; agents take the one that takes writes",
            )
        });
    }
    let told: Vec<String> = (answers.iter())
        .map(|(server, answer)| match answer {
            Ok(role) if role.standby => format!("{server} is a standby"),
            Ok(_) => format!("{server} is the primary"),
            Err(error) => format!("{server}: {error}"),
        })
        .collect();
    let found = told.join("; ");
    let roles = || answers.iter().filter_map(|(_, answer)| answer.as_ref().ok());
    // Two addresses may lead to one server.
    let primaries: BTreeSet<&str> = (roles().filter(|role| !role.standby))
        .map(|role| role.server.as_str())
        .collect();
    Some(match primaries.len() {
        2.. => Check::bad(
            Level::Failure,
            "servers",
            found,
            "two servers take writes: agents that reach different ones are two farms, and every job runs in both",
            "stop the one that was to be replaced, and make it a standby of the other",
        ),
        0 => Check::bad(
            Level::Failure,
            "servers",
            found,
            format!("no server takes writes; {MEANWHILE}"),
            "promote a standby: SELECT pg_promote()",
        ),
        _ if answers.iter().any(|(_, a)| a.is_err()) => Check::bad(
            Level::Warning,
            "servers",
            found,
            "a failover has fewer servers to go to; connecting may first wait for the one that does not answer",
            "bring it back, or take it out of the URL",
        ),
        _ => Check::ok("servers", found),
    })
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::good;
    use super::*;

    fn level(judge: impl Fn(&Server, &Link) -> Check, change: impl Fn(&mut Server, &mut Link)) -> Level {
        let (mut it, mut link) = good();
        change(&mut it, &mut link);
        judge(&it, &link).level
    }

    #[test]
    fn only_a_synchronous_standby_that_is_there_is_good() {
        let level = |change: fn(&mut Server)| level(|s, _| standby(s), |s, _| change(s));
        assert_eq!(level(|_| ()), Level::Ok);
        let asynchronous = |s: &mut Server| {
            s.synchronous_standby_names.clear();
            s.synchronous_standbys = 0;
        };
        assert_eq!(level(asynchronous), Level::Warning);
        assert_eq!(level(|s| s.synchronous_standbys = 0), Level::Warning);
        let hidden = |s: &mut Server| (s.synchronous_standbys, s.hidden_standbys) = (0, 1);
        assert_eq!(level(hidden), Level::Note);
        let alone = |s: &mut Server| {
            s.synchronous_standby_names.clear();
            (s.synchronous_standbys, s.standbys) = (0, 0);
        };
        assert_eq!(level(alone), Level::Note);
        assert_eq!(
            level(|s| s.synchronous_standby_names = "FIRST 2 (a, b)".to_owned()),
            Level::Warning
        );
        assert_eq!(
            level(|s| s.synchronous_standby_names = "ANY 1 (a, b)".to_owned()),
            Level::Ok
        );
    }

    #[test]
    fn a_standby_far_behind_is_a_warning() {
        assert_eq!(level(|s, _| lag(s), |s, _| s.standby_lag_bytes = None), Level::Ok);
        let far = |s: &mut Server, _: &mut Link| s.standby_lag_bytes = Some(LAG_BYTES + 1);
        assert_eq!(level(|s, _| lag(s), far), Level::Warning);
    }

    #[test]
    fn a_backend_older_than_the_connection_or_shared_by_two_means_a_pooler() {
        assert_eq!(level(pooler, |s, _| s.backend_age_seconds = 60.0), Level::Note);
        assert_eq!(level(pooler, |_, l| l.shared_backend = true), Level::Note);
        assert_eq!(level(pooler, |_, _| ()), Level::Ok);
    }

    #[test]
    fn of_several_servers_exactly_one_must_take_writes() {
        let role = |(standby, server): (bool, &str)| Role {
            standby,
            server: server.to_owned(),
        };
        let level = |told: &[Option<(bool, &str)>], standbys| {
            let answer = |told: &Option<(bool, &str)>| {
                told.map(role)
                    .ok_or_else(|| StoreError::Unreachable("refused".to_owned()))
            };
            let answers: Vec<_> = told.iter().map(|t| ("a".to_owned(), answer(t))).collect();
            servers(&answers, standbys).map(|c| c.level)
        };
        let (primary, standby) = (Some((false, "1")), Some((true, "2")));
        assert_eq!(level(&[primary], 0), None);
        assert_eq!(level(&[primary], 1), Some(Level::Note));
        assert_eq!(level(&[primary, standby], 1), Some(Level::Ok));
        assert_eq!(level(&[primary, Some((false, "2"))], 0), Some(Level::Failure));
        assert_eq!(
            level(&[primary, primary], 0),
            Some(Level::Ok),
            "one server by two ways"
        );
        assert_eq!(level(&[standby, standby], 0), Some(Level::Failure));
        assert_eq!(level(&[None, primary], 0), Some(Level::Warning));
    }
}
