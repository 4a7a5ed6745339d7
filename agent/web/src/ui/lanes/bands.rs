//! Short attempts of one job on one node, folded into a histogram.

use std::collections::BTreeMap;

use farmhand_store::reading::BarEnd;

use super::scale::Scale;
use super::{AttemptFact, Band, Cell, Count, is_good};

/// Pieces of the width.
const CELLS: usize = 96;
/// Narrower than this, in percent, a bar is a line that nobody can point at.
const NARROW: f64 = 0.45;
/// So many narrow bars on a node become bands; so many of one job, a band of its own.
const FOLD: usize = 8;
/// Jobs with a band of their own in a lane; the others share one.
const OWN: usize = 2;

/// Takes out of `attempts` what is folded. `keep` names those that have something to say and stay.
pub fn fold<'a>(
    attempts: Vec<&'a AttemptFact>,
    scale: &Scale,
    keep: impl Fn(&AttemptFact) -> bool,
) -> (Vec<&'a AttemptFact>, Vec<Band>) {
    let width = |a: &AttemptFact| scale.x(a.to.unwrap_or(scale.now)) - scale.x(a.from);
    let (narrow, mut bars): (Vec<_>, Vec<_>) = attempts
        .into_iter()
        .partition(|a| a.end != BarEnd::Running && !keep(a) && width(a) < NARROW);
    if narrow.len() < FOLD {
        bars.extend(narrow);
        return (bars, Vec::new());
    }
    let mut jobs: BTreeMap<&str, Vec<&AttemptFact>> = BTreeMap::new();
    for attempt in narrow {
        jobs.entry(&attempt.job_id).or_default().push(attempt);
    }
    let mut folded: Vec<(Option<&str>, Vec<&AttemptFact>)> = Vec::new();
    let mut rest: Vec<&AttemptFact> = Vec::new();
    for (job, attempts) in jobs {
        if attempts.len() < FOLD {
            rest.extend(attempts);
        } else {
            folded.push((Some(job), attempts));
        }
    }
    folded.sort_by_key(|(job, attempts)| (std::cmp::Reverse(attempts.len()), *job));
    if folded.len() > OWN {
        rest.extend(
            folded
                .split_off(OWN)
                .into_iter()
                .flat_map(|(_, attempts)| attempts),
        );
    }
    if !rest.is_empty() {
        folded.push((None, rest));
    }
    let bands = folded
        .into_iter()
        .map(|(job, attempts)| band(job, &attempts, scale))
        .collect();
    (bars, bands)
}

/// All of them in one histogram.
pub fn band(job: Option<&str>, attempts: &[&AttemptFact], scale: &Scale) -> Band {
    let mut counts = [(0_usize, 0_usize); CELLS];
    for attempt in attempts {
        let at = scale.x(attempt.to.unwrap_or(scale.now));
        // In [0, 100], so that the cast is exact enough.
        let cell = ((at / 100.0 * CELLS as f64) as usize).min(CELLS - 1);
        let count = &mut counts[cell];
        if is_good(attempt.end) {
            count.0 += 1;
        } else {
            count.1 += 1;
        }
    }
    let most = counts.iter().map(|(g, b)| g + b).max().unwrap_or(1).max(1);
    let step = 100.0 / CELLS as f64;
    let cells = counts
        .iter()
        .enumerate()
        .filter(|(_, (good, bad))| good + bad > 0)
        .map(|(n, (good, bad))| Cell {
            x: n as f64 * step,
            width: step,
            good: *good,
            bad: *bad,
            level: (good + bad) as f64 / most as f64,
        })
        .collect();
    Band {
        job_id: job.map(str::to_owned),
        y: 0.0,
        total: attempts.len(),
        bad: attempts.iter().filter(|a| !is_good(a.end)).count(),
        cells,
    }
}

/// What the database counted.
pub fn counted<'a>(counts: impl Iterator<Item = &'a Count>, scale: &Scale) -> Option<Band> {
    let counts: Vec<&Count> = counts.filter(|c| c.total > 0).collect();
    let most = counts.iter().map(|c| c.total).max()?;
    Some(Band {
        job_id: None,
        y: 0.0,
        total: counts.iter().map(|c| c.total).sum(),
        bad: counts.iter().map(|c| c.bad).sum(),
        cells: (counts.iter())
            .map(|c| Cell {
                x: scale.x(c.from),
                width: scale.x(c.to) - scale.x(c.from),
                good: c.total.saturating_sub(c.bad),
                bad: c.bad,
                level: c.total as f64 / most as f64,
            })
            .collect(),
    })
}
