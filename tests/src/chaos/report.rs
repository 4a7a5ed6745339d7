//! What a run of the suite says for itself.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::lateness::{self, Timed};
use super::plan::Plan;
use super::run::{Met, Outcome};

/// For people.
pub fn text(dir: &Path, plan: &Plan, outcome: &Outcome) -> String {
    let mut out = String::new();
    let hours = outcome.lasted.as_secs_f64() / 3600.0;
    let count = outcome.count();
    let _ = writeln!(
        out,
        "seed {}: {count} faults in {:.0} s ({:.0} an hour) on {} agents",
        plan.seed,
        outcome.lasted.as_secs_f64(),
        count as f64 / hours.max(1e-9),
        plan.shape.agents
    );
    for (name, Met { begun, hit }) in &outcome.faults {
        let missed = begun - hit;
        let missed = if missed > 0 {
            format!(" ({missed} met nothing to hit)")
        } else {
            String::new()
        };
        let _ = writeln!(out, "  {begun:>6}  {name}{missed}");
    }
    let verdict = &outcome.verdict;
    let _ = writeln!(
        out,
        "{} runs, {} attempts, {} acknowledged submissions, {} due instants matched, {} of them skipped",
        verdict.runs, verdict.attempts, outcome.submitted, outcome.instants, outcome.skipped
    );
    for (how, count) in &verdict.ends {
        let _ = writeln!(out, "  {count:>6}  {how}");
    }
    let _ = writeln!(out, "takeovers: {}", spread(&verdict.takeovers));
    let _ = writeln!(out, "from an instant to its run: {}", spread(&outcome.begun));
    let quarters = lateness::quarters(&outcome.begun).map(|(p50, p99)| format!("{p50:.1?} {p99:.1?}"));
    let _ = writeln!(out, "  p50 and p99 of each quarter: {}", quarters.join(", "));
    let declared = verdict.violations.len() - verdict.undeclared().count();
    let _ = writeln!(
        out,
        "{} declared windows, in which {declared} doubles were seen; {} agents ended by themselves; \
         {} stalls of the machine, the longest {:?}",
        outcome.windows,
        outcome.surprises.len(),
        outcome.stalls,
        outcome.stall
    );
    for surprise in &outcome.surprises {
        let (node, status, said) = (&surprise.node, &surprise.status, &surprise.said);
        let _ = writeln!(out, "  {node} ended with {status}:\n{said}");
    }
    for violation in verdict.undeclared() {
        let _ = writeln!(
            out,
            "VIOLATION {:?} run {:?}: {}",
            violation.broken, violation.run, violation.what
        );
        for line in &violation.history {
            let _ = writeln!(out, "    {line}");
        }
    }
    for mismatch in &outcome.mismatches {
        let _ = writeln!(out, "SCHEDULE {mismatch:?}");
    }
    if outcome.is_clean() {
        out.push_str("no violation\n");
    } else {
        let _ = writeln!(
            out,
            "again: tests/chaos/run --plan {}",
            dir.join("plan.json").display()
        );
    }
    if let Some(kept) = &outcome.kept {
        let _ = writeln!(out, "kept: {}", kept.display());
    }
    out
}

fn spread(times: &[Timed]) -> String {
    let mut sorted: Vec<Duration> = times.iter().map(|t| t.took).collect();
    sorted.sort_unstable();
    let (Some(last), Some(closest)) = (sorted.last(), Timed::closest(times.iter().copied())) else {
        return "none to judge".to_owned();
    };
    let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
    format!(
        "{} judged, p50 {:.1?}, p99 {:.1?}, longest {last:.1?}; closest to its bound {:.1?} of {:.1?}",
        sorted.len(),
        at(50),
        at(99),
        closest.took,
        closest.within
    )
}

/// Plan and result, for programs and for the next release.
///
/// # Errors
/// Those of the file system.
pub fn write(dir: &Path, plan: &Plan, outcome: &Outcome) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("plan.json"), plan.to_json())?;
    let seconds = |times: &[Timed]| {
        let pairs = times.iter().map(|t| [t.took, t.within].map(|d| d.as_secs_f64()));
        pairs.collect::<Vec<_>>()
    };
    let result = json!({
        "seed": plan.seed,
        "seconds": outcome.lasted.as_secs_f64(),
        "faults": outcome.faults,
        "runs": outcome.verdict.runs,
        "attempts": outcome.verdict.attempts,
        "submitted": outcome.submitted,
        "instants": outcome.instants,
        "skipped": outcome.skipped,
        "ends": outcome.verdict.ends,
        "takeovers": seconds(&outcome.verdict.takeovers),
        "begun": seconds(&outcome.begun),
        "windows": outcome.windows,
        "stalls": outcome.stalls,
        "surprises": outcome.surprises,
        "violations": outcome.verdict.violations,
        "schedule": outcome.mismatches.iter().map(|m| format!("{m:?}")).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&result)?;
    std::fs::write(dir.join("result.json"), text)?;
    std::fs::write(dir.join("report.txt"), self::text(dir, plan, outcome))
}
