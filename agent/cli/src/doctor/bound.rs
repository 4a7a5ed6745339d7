//! Judging which logins act for which nodes.

use farmhand_core::text::count_of;
use farmhand_store::StoreError;
use farmhand_store::bound::BoundNode;

use super::{Check, Level};

/// `own`: whether this connection's login may act for `address`, the one that an agent here would have.
pub(crate) fn judge(bound: &[BoundNode], address: &str, own: &Result<(), StoreError>) -> Vec<Check> {
    let mut checks = vec![match bound.len() {
        0 => Check::ok("logins", "no node is bound to a login"),
        n => Check::ok(
            "logins",
            format!("{} bound to a login each", count_of(n, "node is", "nodes are")),
        ),
    }];
    checks.extend(bound.iter().filter(|node| !node.can_log_in).map(|node| {
        Check::bad(
            Level::Warning,
            "logins",
            format!(
                "{} is bound to {}, which is not a login",
                node.address, node.login
            ),
            "no agent can act for this node",
            format!("make the login, or `farmhand node unbind {}`", node.address),
        )
    }));
    if let Err(StoreError::Forbidden { why, .. }) = own {
        checks.push(Check::bad(
            Level::Warning,
            "logins",
            why.as_str(),
            format!("an agent with this login does not start under the address {address}"),
            "name the agent's address with --address, or give it the login of its node",
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_that_is_gone_or_anothers_is_a_warning() {
        let node = |can_log_in| BoundNode {
            address: "a".into(),
            login: "n1".into(),
            bound_by: "anna".into(),
            bound_at: jiff::Timestamp::UNIX_EPOCH,
            unseen: false,
            can_log_in,
        };
        let worst = |bound: &[BoundNode], own| super::super::worst(&judge(bound, "a", &own));
        assert_eq!(worst(&[], Ok(())), Level::Ok);
        assert_eq!(worst(&[node(true)], Ok(())), Level::Ok);
        assert_eq!(worst(&[node(false)], Ok(())), Level::Warning);
        let denied = Err(StoreError::Forbidden {
            why: "the login".into(),
            fix: None,
        });
        assert_eq!(worst(&[node(true)], denied), Level::Warning);
    }
}
