//! What a run that could be claimed waits for.

use std::fmt;

use crate::definition::Placement;
use crate::explain::{Held, Needed};

/// What a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A slot of a node that may run it.
    Slot,
    /// The only node that may run it, which is not ready.
    Node(String),
    /// No ready node has these labels.
    Labels(Placement),
    /// No node is ready.
    NoNode,
    /// A pool, a lock or a rate.
    Gate(Gated),
}

/// What a run waits for at a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gated {
    /// "pool", "lock" or "rate".
    pub gate: String,
    /// Of the pool or the lock, where it is known.
    pub name: Option<String>,
    pub size: Option<i64>,
    /// A run that holds it, its job and its node.
    pub holder: Option<(i64, String, String)>,
}

/// What keeps a run that waits at a gate from being claimed; `None`: it is only to be claimed.
pub fn gate(needed: &Needed) -> Option<Gated> {
    let gated = |gate: &str, name: Option<&String>, size, holder: Option<&Held>| {
        Some(Gated {
            gate: gate.to_owned(),
            name: name.cloned(),
            size,
            holder: holder.map(|h| (h.run_id, h.job_id.clone(), h.node.clone())),
        })
    };
    let full =
        |size: Option<i64>, holders: usize| i64::try_from(holders).is_ok_and(|n| n >= size.unwrap_or(0));
    if let Some(pool) = &needed.pool {
        let holders = || needed.holders.iter().filter(|h| h.pool.as_ref() == Some(pool));
        if full(needed.pool_size, holders().count()) {
            return gated("pool", Some(pool), needed.pool_size, holders().next());
        }
    }
    for lock in &needed.locks {
        if let Some(holder) = needed.holders.iter().find(|h| h.locks.contains(lock)) {
            return gated("lock", Some(lock), None, Some(holder));
        }
    }
    if let Some(lease) = needed.leases.first() {
        return gated("lock", Some(&lease.name), None, None);
    }
    if needed.before.is_some() {
        return gated("lock", needed.locks.first(), None, None);
    }
    if needed.rate_free_at.is_some_and(|at| at > needed.now) {
        return gated("rate", None, None, None);
    }
    let pool = needed.node_pool.as_ref().filter(|_| needed.pool_full)?;
    let holders = || (needed.holders.iter()).filter(|h| h.node_pool.as_ref() == Some(pool));
    let holder = holders().find(|h| {
        full(
            needed.node_pool_size,
            holders().filter(|o| o.node == h.node).count(),
        )
    });
    gated("pool", Some(pool), needed.node_pool_size, holder)
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot => f.write_str("a free slot"),
            Self::Node(node) => write!(f, "node {node}, which is not ready"),
            Self::Labels(labels) => write!(f, "a node with {labels}: none is ready"),
            Self::NoNode => f.write_str("a node: none is ready"),
            Self::Gate(gated) => gated.fmt(f),
        }
    }
}

impl fmt::Display for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name}", self.gate)?,
            None => write!(f, "its {}", self.gate)?,
        }
        match &self.holder {
            Some((run, job, node)) => write!(f, ": run {run} of {job} on {node} holds it"),
            None if self.size == Some(0) => f.write_str(", which has size 0"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::gate;
    use crate::explain::{Held, Needed};

    #[test]
    fn a_pool_of_each_node_is_waited_for_only_where_it_is_full() {
        let needed = |size| Needed {
            node_pool: Some("gpu".to_owned()),
            node_pool_size: Some(size),
            pool_full: size < 2,
            holders: vec![Held {
                run_id: 4,
                job_id: "other".to_owned(),
                node: "n1".to_owned(),
                since: jiff::Timestamp::UNIX_EPOCH,
                pool: None,
                node_pool: Some("gpu".to_owned()),
                locks: Vec::new(),
            }],
            ..Needed::default()
        };
        assert_eq!(gate(&needed(2)), None);
        let said = |size| gate(&needed(size)).map(|gated| gated.to_string());
        assert_eq!(
            said(1).as_deref(),
            Some("pool gpu: run 4 of other on n1 holds it")
        );
        assert!(said(0).is_some());
    }
}
