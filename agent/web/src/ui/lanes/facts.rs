//! What was read to what the picture shows.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use farmhand_store::reading::{self, BarEnd, NodeItem};
use jiff::{SignedDuration, Timestamp};

use super::{AttemptFact, Count, Facts, NodeFact, Outage, Silence, Zombie};

/// A node renews its lease four times in it; when two of them are missing, people should see that.
const MISSED: i128 = 2;

/// `nodes` may be fewer than the picture's lanes: then sessions and signs of life of the others are unknown.
pub fn facts(picture: &reading::Lanes, nodes: &[NodeItem], now: Timestamp) -> Facts {
    let known: BTreeMap<&str, &NodeItem> = nodes.iter().map(|n| (n.address.as_str(), n)).collect();
    let mut silences: BTreeMap<(&str, i64), Silence> = BTreeMap::new();
    for bar in picture.bars.iter().filter(|b| b.end == BarEnd::Lost) {
        let (Some(from), Some(to)) = (bar.gap_from, bar.to) else {
            continue;
        };
        let silence = silences
            .entry((&bar.node, bar.session))
            .or_insert_with(|| Silence {
                address: bar.node.clone(),
                session: bar.session,
                from,
                to: Some(to),
            });
        // What somebody had locked is freed later than the rest: the session ended with the first.
        match Some(to).cmp(&silence.to) {
            Ordering::Less => (silence.from, silence.to) = (from, Some(to)),
            Ordering::Equal => silence.from = silence.from.max(from),
            Ordering::Greater => {}
        }
    }
    for node in nodes {
        if let Some(silence) = silent(node, now) {
            silences.insert((&node.address, node.session), silence);
        }
    }
    let zombies = picture.bars.iter().flat_map(|bar| {
        bar.fenced.iter().map(|mark| Zombie {
            address: mark.node.clone().unwrap_or_else(|| bar.node.clone()),
            run_id: bar.run_id,
            attempt: bar.attempt,
            at: mark.at,
            word: if mark.kind == "fence_kill" {
                "killed"
            } else {
                "fenced"
            },
        })
    });
    Facts {
        nodes: (picture.lanes.iter())
            .map(|lane| NodeFact {
                address: lane.address.clone(),
                state: lane.state.as_str().to_owned(),
                session: known.get(lane.address.as_str()).map_or(0, |n| n.session),
                slots: lane.slots.into(),
                running: known.get(lane.address.as_str()).map_or(0, |n| n.in_use()),
            })
            .collect(),
        folded: usize::try_from(picture.folded).unwrap_or(0),
        attempts: picture.bars.iter().map(attempt).collect(),
        counts: (picture.bands.iter())
            .map(|band| Count {
                address: band.node.clone(),
                from: band.from,
                to: band.to,
                total: usize::try_from(band.ended).unwrap_or(0),
                bad: usize::try_from(band.bad).unwrap_or(0),
            })
            .collect(),
        silences: silences.into_values().filter(|s| !away(s, picture)).collect(),
        outages: (picture.outages.iter())
            .map(|o| Outage {
                address: o.node.clone(),
                from: o.from,
                to: o.to,
            })
            .collect(),
        zombies: zombies.collect(),
    }
}

/// The node could not be heard of: the database did not answer it.
fn away(silence: &Silence, picture: &reading::Lanes) -> bool {
    (picture.outages.iter())
        .any(|o| o.node == silence.address && o.from < silence.to.unwrap_or(o.to) && silence.from < o.to)
}

/// Of an open session that has not been heard of for too long.
fn silent(node: &NodeItem, now: Timestamp) -> Option<Silence> {
    let ttl = SignedDuration::from_millis(node.ttl_ms);
    let from = node.lease_until.checked_sub(ttl).unwrap_or(node.lease_until);
    let missed = now.duration_since(from).as_millis() * 4 > ttl.as_millis() * MISSED;
    (node.open && missed).then(|| Silence {
        address: node.address.clone(),
        session: node.session,
        from,
        to: None,
    })
}

/// The lease gaps under one run's attempts, on nodes that are as in `nodes`.
pub fn silences(attempts: &[AttemptFact], nodes: &[NodeItem], now: Timestamp) -> Vec<Silence> {
    let of = |attempt: &AttemptFact| {
        let node = nodes.iter().find(|n| n.address == attempt.address)?;
        match attempt.to {
            None => silent(node, now).filter(|s| s.session == attempt.session),
            // Expiry comes no sooner than a whole lease after the last renewal.
            Some(to) => (attempt.end == BarEnd::Lost && reading::was_expired(attempt.reason.as_deref()))
                .then(|| Silence {
                    address: attempt.address.clone(),
                    session: attempt.session,
                    from: (to
                        .checked_sub(SignedDuration::from_millis(node.ttl_ms))
                        .unwrap_or(to))
                    .max(attempt.from),
                    to: Some(to),
                }),
        }
    };
    attempts.iter().filter_map(of).collect()
}

fn attempt(bar: &reading::Bar) -> AttemptFact {
    AttemptFact {
        run_id: bar.run_id,
        job_id: bar.job_id.clone(),
        attempt: bar.attempt,
        address: bar.node.clone(),
        session: bar.session,
        fence: bar.fence,
        from: bar.from,
        to: bar.to,
        end: bar.end,
        reason: bar.reason.clone(),
        ran_ms: bar.ran_ms,
    }
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
