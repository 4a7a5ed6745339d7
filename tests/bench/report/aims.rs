//! What each figure is to be: an aim of its own, or a part of another figure of the same run.

use super::Figure;

pub enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// At least this part of the largest of the figures whose names begin so.
    PartOf(f64, &'static [&'static str]),
    /// At most so many times the smallest of the figures whose names end so.
    AtMostTimes(f64, &'static str),
}

/// Bench, what the name begins with, what it ends with, and the aim; the first that fits counts.
const AIMS: [(&str, &str, &str, Aim); 23] = [
    (
        "queue",
        "farmhand, 4 agents, sets of 500",
        "",
        Aim::PartOf(1.0, &["pg-boss", "graphile-worker", "procrastinate"]),
    ),
    (
        "spawn",
        "farmhand, one agent, 8 slots, /bin/true",
        "tmpfs",
        Aim::PartOf(0.5, &["bare"]),
    ),
    (
        "spawn",
        "farmhand, one agent, 8 slots, /bin/true",
        "disk",
        Aim::PartOf(0.42, &["bare"]),
    ),
    ("due", "1 due at once", "p50", Aim::AtMost(3.0)),
    ("due", "1 due at once", "p99", Aim::AtMost(20.0)),
    // Those of the peer's name end so too.
    (
        "due",
        "50 due at once",
        "p50",
        Aim::AtMostTimes(1.0, "50 due at once, first instruction, p50"),
    ),
    (
        "due",
        "1000 due at once",
        "p50",
        Aim::AtMostTimes(1.0, "1000 due at once, first instruction, p50"),
    ),
    (
        "due",
        "4,000 jobs every 5 s",
        "lateness, p99",
        Aim::AtMost(1_000.0),
    ),
    (
        "due",
        "4,000 jobs every 5 s",
        "instants without an end",
        Aim::AtMost(0.0),
    ),
    ("submit", "notify on, from the call", "p50", Aim::AtMost(2.5)),
    ("submit", "notify on, from the call", "p99", Aim::AtMost(5.0)),
    // 1.1 leases and two seconds.
    ("takeover", "leases of 6 s", "most", Aim::AtMost(8_600.0)),
    ("idle", "statements per second", "", Aim::AtMost(0.5)),
    ("idle", "agent: resident", "", Aim::AtMost(15.0)),
    ("idle", "warden: private and written to", "", Aim::AtMost(1.0)),
    (
        "farm",
        "",
        "statements a second and agent, at rest",
        Aim::AtMost(0.5),
    ),
    (
        "farm",
        "",
        "directly: server CPU of one due run",
        Aim::AtMostTimes(1.5, "directly: server CPU of one due run"),
    ),
    ("farm", "", "lateness, p99", Aim::AtMost(1_000.0)),
    ("farm", "", "statements that failed", Aim::AtMost(0.0)),
    // The lease: nobody may lose it to a restart.
    ("farm", "", "until all have renewed", Aim::AtMost(20.0)),
    ("history", "with the history, of without", "", Aim::AtLeast(90.0)),
    ("history", "retention", "", Aim::AtMost(1_000.0)),
    // What of it others notice.
    (
        "history",
        "beside it, a claim and its end, most",
        "",
        Aim::AtMost(100.0),
    ),
];

/// The aim of a figure as text, and whether it is met.
pub fn judge(figure: &Figure, all: &[Figure]) -> Option<(String, bool)> {
    let (_, _, _, aim) = AIMS.iter().find(|(bench, begin, end, _)| {
        *bench == figure.bench && figure.name.starts_with(begin) && figure.name.ends_with(end)
    })?;
    match aim {
        Aim::AtMost(most) => Some((format!("≤ {most}"), figure.value <= *most)),
        Aim::AtLeast(least) => Some((format!("≥ {least}"), figure.value >= *least)),
        Aim::AtMostTimes(times, end) => {
            let alike = all.iter().filter(|f| f.name.ends_with(end)).map(|f| f.value);
            let least = alike.fold(f64::INFINITY, f64::min);
            Some((format!("≤ {times} · {least:.2}"), figure.value <= times * least))
        }
        Aim::PartOf(part, names) => {
            let others = all
                .iter()
                .filter(|f| f.bench == figure.bench && f.unit == figure.unit);
            let best = others
                .filter(|f| names.iter().any(|name| f.name.starts_with(name)))
                .max_by(|a, b| a.value.total_cmp(&b.value))?;
            let met = figure.value >= part * best.value;
            let has = figure.value / best.value * 100.0;
            Some((
                format!("≥ {:.0} % of {} (has {has:.0} %)", part * 100.0, best.name),
                met,
            ))
        }
    }
}
