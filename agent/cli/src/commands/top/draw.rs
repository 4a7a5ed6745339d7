//! A moment as lines of text that fit a screen. Pure.

use std::time::Duration;

use farmhand_store::reading::{HeldRun, NextNow, NodeItem, QueuedRun};
use jiff::Timestamp;

use super::Moment;
use crate::commands::next::distance;
use crate::commands::node::labels;
use crate::commands::out;
use crate::commands::status::{counted, due, finding};

/// One table.
pub(super) struct List {
    pub title: String,
    pub headers: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// Of all rows that are known of, read or not.
    total: usize,
}

/// What stands above the lists.
pub(super) fn head(moment: &Moment) -> Vec<String> {
    let farm = &moment.farm;
    let mut lines = vec![format!(
        "{}, {} of {} slots, due: {}, waiting: {}  {}",
        out::count(moment.nodes.iter().filter(|node| node.open).count(), "node"),
        counted(farm.running),
        farm.slots,
        due(farm),
        counted(farm.waiting),
        out::time(farm.db_now)
    )];
    lines.extend(farm.findings.iter().map(finding));
    lines
}

pub(super) fn lists(moment: &Moment) -> Vec<List> {
    let (farm, now) = (&moment.farm, moment.farm.db_now);
    let list = |title: String, headers: &[&'static str], rows: Vec<Vec<String>>, total: i64| List {
        title,
        headers: headers.to_vec(),
        total: usize::try_from(total).unwrap_or(0).max(rows.len()),
        rows,
    };
    let mut held: Vec<(&NodeItem, &HeldRun)> = (moment.nodes.iter())
        .flat_map(|node| node.runs.iter().map(move |run| (node, run)))
        .collect();
    held.sort_by_key(|(_, run)| (run.claimed_at, run.run_id));
    vec![
        list(
            format!("NODES {}", moment.nodes.len()),
            &["ADDRESS", "STATE", "SLOTS", "LEASE", "LABELS"],
            moment.nodes.iter().map(|node| of_node(node, now)).collect(),
            0,
        ),
        list(
            format!("RUNNING {}", counted(farm.running)),
            &["RUN", "JOB", "TRY", "NODE", "FOR"],
            held.iter().map(|(node, run)| of_run(node, run, now)).collect(),
            farm.running,
        ),
        list(
            format!("DUE {}, WAITING {}", counted(farm.due), counted(farm.waiting)),
            &["RUN", "JOB", "DUE", "WHY"],
            moment.queue.iter().map(|run| of_due(run, now)).collect(),
            farm.due + farm.waiting,
        ),
        list(
            "NEXT".to_owned(),
            &["IN", "JOB"],
            farm.next.iter().map(|next| of_next(next, now)).collect(),
            0,
        ),
    ]
}

fn of_node(node: &NodeItem, now: Timestamp) -> Vec<String> {
    let lease = if node.open {
        let left = node.lease_until.duration_since(now);
        match Duration::try_from(left) {
            Ok(left) => format!("{}s", left.as_secs()),
            Err(_) => format!("over for {}", age(now, node.lease_until)),
        }
    } else {
        "-".to_owned()
    };
    vec![
        node.address.clone(),
        node.state.to_string(),
        format!("{}/{}", node.in_use(), node.slots),
        lease,
        labels(node),
    ]
}

fn of_run(node: &NodeItem, run: &HeldRun, now: Timestamp) -> Vec<String> {
    let mut since = age(now, run.claimed_at);
    if run.cancel_requested {
        since.push_str(", being cancelled");
    }
    vec![
        run.run_id.to_string(),
        run.job_id.clone(),
        run.attempt.to_string(),
        node.address.clone(),
        since,
    ]
}

fn of_due(run: &QueuedRun, now: Timestamp) -> Vec<String> {
    let why = match (&run.gate, &run.node) {
        (Some(gate), _) => format!("waits: {gate}"),
        (None, _) if run.ready_at > now => {
            let why = run.reason.as_deref().unwrap_or("its time");
            format!("waits: {why}, {}", distance(now, run.ready_at))
        }
        (None, Some(node)) => format!("for {node}"),
        (None, None) => "for a node".to_owned(),
    };
    vec![
        run.run_id.to_string(),
        run.job_id.clone(),
        distance(now, run.due_at),
        why,
    ]
}

fn of_next(next: &NextNow, now: Timestamp) -> Vec<String> {
    vec![distance(now, next.next_run), next.job_id.clone()]
}

fn age(now: Timestamp, at: Timestamp) -> String {
    out::span(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

/// The whole screen: never more lines or columns than there are. What does not fit is counted.
pub(super) fn page(moment: &Moment, trouble: Option<&str>, width: usize, height: usize) -> Vec<String> {
    let mut lines = head(moment);
    if let Some(trouble) = trouble {
        lines.push(format!("! {trouble}"));
    }
    let foot = "q leaves";
    let lists = lists(moment);
    // A blank line, the title and the headers of each list.
    let frame: usize = lists
        .iter()
        .map(|list| if list.rows.is_empty() { 2 } else { 3 })
        .sum();
    let room = height.saturating_sub(lines.len() + frame + 1);
    let shares = share(room, &lists.iter().map(|l| l.rows.len()).collect::<Vec<_>>());
    for (list, rows) in lists.iter().zip(shares) {
        lines.push(String::new());
        lines.push(list.title.clone());
        lines.extend(table(list, rows));
    }
    lines.truncate(height.saturating_sub(1));
    lines.push(foot.to_owned());
    lines
        .iter()
        .map(|line| fit(&out::one_line(line).replace('\t', " "), width))
        .collect()
}

/// Divides the lines: small lists get all they want, the others equal parts of what is left.
fn share(room: usize, wanted: &[usize]) -> Vec<usize> {
    let mut shares = vec![0; wanted.len()];
    let mut left = room;
    loop {
        let hungry: Vec<usize> = (0..wanted.len()).filter(|i| shares[*i] < wanted[*i]).collect();
        if hungry.is_empty() || left == 0 {
            return shares;
        }
        let part = (left / hungry.len()).max(1);
        for i in hungry {
            let more = part.min(wanted[i] - shares[i]).min(left);
            shares[i] += more;
            left -= more;
        }
    }
}

fn table(list: &List, room: usize) -> Vec<String> {
    if list.rows.is_empty() {
        return Vec::new();
    }
    let fits = room >= list.total && list.rows.len() == list.total;
    let shown = if fits { list.total } else { room.saturating_sub(1) };
    let shown = &list.rows[..shown.min(list.rows.len())];
    let mut widths: Vec<usize> = list.headers.iter().map(|h| h.len()).collect();
    for row in shown {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!(" {}", padded.join("  ")).trim_end().to_owned()
    };
    let mut lines = vec![line(&mut list.headers.iter().copied())];
    lines.extend(shown.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    if shown.len() < list.total && room > 0 {
        lines.push(format!(" … {} more", list.total - shown.len()));
    }
    lines
}

/// Cuts a line at the edge of the screen, and shows that it did.
fn fit(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let mut cut: String = line.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn moment(nodes: i64, runs: i64) -> Moment {
        let now = "2026-11-21T12:00:00Z";
        let run = |n: i64| {
            json!({"run_id": n, "job_id": "a-job-with-a-name-that-is-rather-long-for-a-table", "attempt": 1,
            "fence": n, "claimed_at": "2026-11-21T11:59:00Z", "cancel_requested": false})
        };
        let node = |n: i64| {
            let runs = (0..if n == 0 { runs } else { 0 }).map(run).collect::<Vec<_>>();
            json!({"address": format!("n{n}"), "name": "n", "state": "ready", "open": true, "session": 1, "slots": 4,
            "running": 1, "held": 0, "lease_until": "2026-11-21T12:00:25Z", "ttl_ms": 30000, "started_at": now, "runs": runs,
            "labels": {"role": "batch", "zone": "a-zone-with-a-long-name"}, "version": "0.1.0"})
        };
        let farm = json!({"db_now": now, "overdue": [], "stuck": [], "failing": [], "lost": [], "waits": [],
            "oldest_due": null, "oldest_gated": null, "next": [], "running": runs, "due": 0, "waiting": 0,
            "nodes": {"ready": nodes}, "slots": 8, "claims_open": true, "any_job": true});
        Moment {
            farm: serde_json::from_value(farm).unwrap(),
            nodes: (0..nodes)
                .map(|n| serde_json::from_value(node(n)).unwrap())
                .collect(),
            queue: Vec::new(),
        }
    }

    #[test]
    fn what_others_wrote_is_no_line_of_the_page() {
        let lines = page(&moment(1, 1), Some("away\nfarm  all is well"), 80, 24);
        assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
    }

    #[test]
    fn a_page_never_leaves_the_screen_and_counts_what_does_not_fit() {
        for (width, height) in [(80, 24), (40, 10), (200, 60), (20, 3)] {
            let lines = page(&moment(30, 100), None, width, height);
            assert!(lines.len() <= height, "{width}x{height}: {}", lines.join("\n"));
            assert!(
                lines.iter().all(|l| l.chars().count() <= width),
                "{}",
                lines.join("\n")
            );
        }
        let text = page(&moment(30, 100), None, 80, 24).join("\n");
        assert!(text.contains("RUNNING 100") && text.contains("more"), "{text}");
        assert!(text.ends_with("q leaves"), "{text}");
    }

    #[test]
    fn a_small_farm_is_shown_whole_at_eighty_columns() {
        let text = page(&moment(3, 2), None, 80, 24).join("\n");
        assert!(!text.contains("more"), "{text}");
        assert!(text.contains("n2") && text.contains("25s"), "{text}");
    }

    #[test]
    fn small_lists_get_what_they_want_and_the_others_share_the_rest() {
        assert_eq!(share(10, &[2, 50, 50]), [2, 4, 4]);
        assert_eq!(share(100, &[2, 50, 3]), [2, 50, 3]);
        assert_eq!(share(0, &[1, 1]), [0, 0]);
    }
}
