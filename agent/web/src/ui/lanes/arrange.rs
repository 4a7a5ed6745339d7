//! Facts to places.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};

use super::scale::Scale;
use super::{
    Arrow, AttemptFact, Bar, Facts, Gap, Lane, MANY, Mark, NodeFact, Picture, Shade, Silence, bands, is_good,
    is_lost,
};
use crate::ui::parts::time::between;

pub const AXIS: f64 = 22.0;
pub const BAR: f64 = 20.0;
pub const BAND: f64 = 18.0;
const STEP: f64 = 23.0;
const PAD: f64 = 6.0;
const LOW: f64 = 40.0;
/// Rows of bars in a lane; what finds no place in them is folded.
const ROWS: usize = 6;
/// The least width of a bar, in percent, so that it can be seen.
const LEAST: f64 = 0.35;

/// Decides what is shown where, for the time from `now - window` to `now`.
pub fn arrange(facts: &Facts, now: Timestamp, window: SignedDuration) -> Picture {
    let scale = Scale::new(now, window);
    let heirs = heirs(facts);
    let nodes = nodes(facts);
    let (own, rest) = split(facts, &nodes, &heirs);
    let mut picture = Picture {
        ticks: scale.ticks(),
        now: scale.x(now),
        ..Picture::default()
    };
    let mut top = AXIS;
    for node in own {
        let lane = lane(facts, node, &scale, &heirs, top);
        top += lane.height;
        picture.lanes.push(lane);
    }
    if !rest.is_empty() || facts.folded > 0 {
        let lane = folded(facts, &rest, &scale, top);
        top += lane.height;
        picture.lanes.push(lane);
    }
    picture.height = top;
    picture.arrows = arrows(&picture.lanes, &heirs);
    picture
}

/// (run, attempt) of what took over from a lost attempt → the attempt it took over from.
type Heirs = HashMap<(i64, i32), i32>;

/// The next attempt of the same run is the heir, though numbers between were lost with a failover.
fn heirs(facts: &Facts) -> Heirs {
    let mut runs: BTreeMap<i64, Vec<&AttemptFact>> = BTreeMap::new();
    for attempt in &facts.attempts {
        runs.entry(attempt.run_id).or_default().push(attempt);
    }
    let mut heirs = Heirs::new();
    for attempts in runs.values_mut() {
        attempts.sort_by_key(|a| (a.attempt, a.fence));
        for pair in attempts.windows(2) {
            if is_lost(pair[0].end) {
                heirs.insert((pair[1].run_id, pair[1].attempt), pair[0].attempt);
            }
        }
    }
    heirs
}

/// Those that the database lists, and those that only attempts remember.
fn nodes(facts: &Facts) -> Vec<NodeFact> {
    let mut nodes: BTreeMap<&str, NodeFact> = facts
        .nodes
        .iter()
        .map(|n| (n.address.as_str(), n.clone()))
        .collect();
    for attempt in &facts.attempts {
        nodes.entry(&attempt.address).or_insert_with(|| NodeFact {
            address: attempt.address.clone(),
            state: "closed".to_owned(),
            session: attempt.session,
            slots: 0,
            running: 0,
        });
    }
    nodes.into_values().collect()
}

/// The nodes with a lane of their own, and those that share one.
fn split<'a>(facts: &Facts, nodes: &'a [NodeFact], heirs: &Heirs) -> (Vec<&'a NodeFact>, Vec<&'a NodeFact>) {
    if nodes.len() <= MANY {
        return (nodes.iter().collect(), Vec::new());
    }
    let mut loud: BTreeSet<&str> = BTreeSet::new();
    loud.extend(facts.silences.iter().map(|s| s.address.as_str()));
    loud.extend(facts.zombies.iter().map(|z| z.address.as_str()));
    let speaks = |a: &&AttemptFact| !is_good(a.end) || heirs.contains_key(&(a.run_id, a.attempt));
    loud.extend(facts.attempts.iter().filter(speaks).map(|a| a.address.as_str()));
    let has_to_say = |n: &&NodeFact| loud.contains(n.address.as_str()) || is_withheld(n);
    let (mut own, mut rest): (Vec<_>, Vec<_>) = nodes.iter().partition(has_to_say);
    // Closed nodes are many on farms that come and go; the others first.
    own.sort_by_key(|n| !loud.contains(n.address.as_str()));
    if own.len() > MANY {
        rest.extend(own.split_off(MANY));
    }
    own.sort_by(|a, b| a.address.cmp(&b.address));
    (own, rest)
}

fn is_withheld(node: &NodeFact) -> bool {
    matches!(node.state.as_str(), "draining" | "cordoned" | "blocked")
}

fn lane(facts: &Facts, node: &NodeFact, scale: &Scale, heirs: &Heirs, top: f64) -> Lane {
    let here = |address: &str| address == node.address;
    let silences: Vec<_> = facts.silences.iter().filter(|s| here(&s.address)).collect();
    let mut attempts: Vec<_> = facts.attempts.iter().filter(|a| here(&a.address)).collect();
    attempts.sort_by_key(|a| (a.from, a.run_id, a.attempt));
    let inherits = |a: &AttemptFact| heirs.contains_key(&(a.run_id, a.attempt));
    let (mut shown, mut folded) =
        bands::fold(attempts, scale, |a: &AttemptFact| is_lost(a.end) || inherits(a));
    shown.sort_by_key(|a| (a.from, a.run_id, a.attempt));

    let mut ends: Vec<f64> = Vec::new();
    let mut bars = Vec::new();
    let mut crowded = Vec::new();
    for fact in shown {
        // A dead node's attempt is known to have lived until the last sign of life.
        let silence = silences.iter().find(|s| {
            let within = s.from > fact.from && fact.to.is_none_or(|to| to > s.from);
            s.session == fact.session && within && is_lost(fact.end)
        });
        let until = silence.map(|s| s.from).or(fact.to).unwrap_or(scale.now);
        let x = scale.x(fact.from);
        let width = (scale.x(until) - x).max(LEAST);
        let Some(row) = place(&mut ends, x, x + width) else {
            crowded.push(fact);
            continue;
        };
        bars.push(Bar {
            fact: fact.clone(),
            x,
            width,
            y: top + PAD + row as f64 * STEP,
            hatched: is_lost(fact.end),
            heir: inherits(fact),
        });
    }
    if !crowded.is_empty() {
        folded.push(bands::band(None, &crowded, scale));
    }
    let counts = facts
        .counts
        .iter()
        .filter(|c| c.address.as_deref() == Some(&node.address));
    folded.extend(bands::counted(counts, scale));
    let mut y = top + PAD + ends.len() as f64 * STEP;
    for band in &mut folded {
        band.y = y;
        y += STEP;
    }
    let zombies = facts.zombies.iter().filter(|z| here(&z.address));
    let outages = facts.outages.iter().filter(|o| here(&o.address));
    Lane {
        title: node.address.clone(),
        node: Some(node.clone()),
        state: node.state.clone(),
        top,
        height: (y - top + PAD - (STEP - BAR)).max(LOW),
        bars,
        bands: folded,
        gaps: (silences.iter())
            .map(|s| silence(s, scale))
            .chain(outages.map(|o| gap(o.from, o.to, Shade::Away, scale)))
            .collect(),
        marks: zombies
            .map(|z| Mark {
                x: scale.x(z.at),
                run_id: z.run_id,
                attempt: z.attempt,
                word: z.word,
            })
            .collect(),
    }
}

/// The first row that is free from `x` on, or a new one.
fn place(ends: &mut Vec<f64>, x: f64, end: f64) -> Option<usize> {
    if let Some(row) = ends.iter().position(|e| *e <= x) {
        ends[row] = end;
        return Some(row);
    }
    (ends.len() < ROWS).then(|| {
        ends.push(end);
        ends.len() - 1
    })
}

fn silence(silence: &Silence, scale: &Scale) -> Gap {
    let shade = match silence.to {
        Some(_) => Shade::Expired,
        None => Shade::Silent,
    };
    gap(silence.from, silence.to.unwrap_or(scale.now), shade, scale)
}

fn gap(from: Timestamp, to: Timestamp, shade: Shade, scale: &Scale) -> Gap {
    let x = scale.x(from);
    Gap {
        x,
        width: (scale.x(to) - x).max(LEAST),
        lasted: between(from, to),
        shade,
    }
}

fn folded(facts: &Facts, rest: &[&NodeFact], scale: &Scale, top: f64) -> Lane {
    let here: BTreeSet<&str> = rest.iter().map(|n| n.address.as_str()).collect();
    let attempts: Vec<_> = facts
        .attempts
        .iter()
        .filter(|a| here.contains(a.address.as_str()))
        .collect();
    let open = rest.iter().filter(|n| n.state == "ready").count() + facts.folded;
    let title = match rest.len() + facts.folded - open {
        0 => format!("{open} healthy"),
        closed => format!("{open} healthy, {closed} closed"),
    };
    let counts = facts.counts.iter().filter(|c| c.address.is_none());
    let mut shown: Vec<_> = bands::counted(counts, scale).into_iter().collect();
    if !attempts.is_empty() {
        shown.push(bands::band(None, &attempts, scale));
    }
    let mut y = top + PAD;
    for band in &mut shown {
        band.y = y;
        y += STEP;
    }
    Lane {
        title,
        node: None,
        state: "ready".to_owned(),
        top,
        height: LOW,
        bars: Vec::new(),
        bands: shown,
        gaps: Vec::new(),
        marks: Vec::new(),
    }
}

fn arrows(lanes: &[Lane], heirs: &Heirs) -> Vec<Arrow> {
    let bars: HashMap<(i64, i32), (&Lane, &Bar)> = lanes
        .iter()
        .flat_map(|lane| lane.bars.iter().map(move |bar| (lane, bar)))
        .map(|(lane, bar)| ((bar.fact.run_id, bar.fact.attempt), (lane, bar)))
        .collect();
    let mut arrows: Vec<Arrow> = heirs
        .iter()
        .filter_map(|((run, attempt), lost)| {
            let (from_lane, from) = bars.get(&(*run, *lost))?;
            let (to_lane, to) = bars.get(&(*run, *attempt))?;
            let down = to.y > from.y;
            Some(Arrow {
                run_id: *run,
                attempt: *attempt,
                fence: to.fact.fence,
                from: (from.x + from.width, from.y + BAR / 2.0),
                to: (to.x, if down { to.y - 1.0 } else { to.y + BAR + 1.0 }),
                from_node: from_lane.title.clone(),
                to_node: to_lane.title.clone(),
            })
        })
        .collect();
    arrows.sort_by_key(|a| (a.run_id, a.attempt));
    arrows
}
