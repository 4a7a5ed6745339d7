//! Judging whether the database is the one that the agents left.

use farmhand_store::epochs::Epoch;

use super::{Check, Level};

const BUMP: &str = "where targets store fences, compare the highest with `farmhand epoch`; `farmhand epoch bump --above FENCE` goes above it";

/// Whether claims are open, and whether a bump may have been forgotten.
pub(crate) fn judge(newest: &Epoch) -> Check {
    let epoch = newest.epoch;
    let Some(closed) = newest.closed() else {
        if newest.guessed {
            return Check::bad(
                Level::Note,
                "epoch",
                format!(
                    "epoch {epoch} is open; it was opened by an agent that had not been there since its machine was started, or leaves room for epochs that another remembers"
                ),
                "if this database was restored, fences may repeat that targets have seen",
                BUMP,
            );
        }
        return Check::ok("epoch", format!("epoch {epoch} is open"));
    };
    // An agent that cannot renew here has no lease, but it has told the database what it remembers.
    let no_agent_seen = newest.open_nodes == 0 && newest.seen_epoch < epoch;
    let fix = match (no_agent_seen, closed.may_lack_epochs()) {
        (true, true) => format!("start an agent; no agent is here that could remember. {BUMP}"),
        (true, false) => "start an agent".to_owned(),
        _ => "wait; when it lasts, see that an agent runs and reaches this server".to_owned(),
    };
    Check::bad(
        Level::Warning,
        "epoch",
        format!("epoch {epoch} is closed: {}", closed.because()),
        "nothing is claimed until an agent has watched the database for the longest lease",
        fix,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest(server: &str, cluster: &str, guessed: bool, (open_nodes, seen_epoch): (i64, i64)) -> Epoch {
        serde_json::from_value(serde_json::json!({
            "farm_id": "00000000-0000-0000-0000-000000000000", "epoch": 65, "id": "00000000-0000-0000-0000-000000000000",
            "open": server == "1 x", "opened_at": "2026-01-01T00:00:00Z", "opened_by": "a", "server": server,
            "cluster": cluster, "server_now": "1 x", "cluster_now": "7", "fence": 100, "longest_lease_ms": 30_000,
            "seen_epoch": seen_epoch, "guessed": guessed, "open_nodes": open_nodes
        }))
        .unwrap()
    }

    #[test]
    fn a_bump_is_named_where_it_may_be_missing() {
        for (server, cluster, guessed, open_nodes, seen_epoch, level, bump) in [
            ("1 x", "7", false, 0, 0, Level::Ok, false),
            ("1 x", "7", true, 3, 0, Level::Note, true),
            ("1 x", "8", false, 0, 0, Level::Ok, false),
            ("0 x", "7", false, 0, 0, Level::Warning, false),
            ("0 x", "8", false, 0, 0, Level::Warning, true),
            ("0 x", "8", false, 0, 64, Level::Warning, true),
            ("0 x", "8", false, 0, 65, Level::Warning, false),
            ("0 x", "8", false, 1, 0, Level::Warning, false),
            ("0 y", "7", false, 0, 0, Level::Warning, true),
            ("bumped a", "7", false, 0, 0, Level::Warning, false),
        ] {
            let check = judge(&newest(server, cluster, guessed, (open_nodes, seen_epoch)));
            let named = check.fix.is_some_and(|fix| fix.contains("bump --above"));
            assert_eq!(
                (check.level, named),
                (level, bump),
                "{server} {cluster} {guessed}"
            );
        }
    }
}
