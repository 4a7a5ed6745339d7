//! Every sitting of the suite, in one table: `tests/chaos/sittings.toml`, from which a part of `docs/lab/reliability.md` is written.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::lateness::Timed;
use super::plan::Plan;
use super::run::{Met, Outcome};

/// So many faults are to be judged.
pub const AIM: u64 = 100_000;

const BEGINS: &str = "<!-- This part is written from tests/chaos/sittings.toml. -->\n";
const ENDS: &str = "<!-- Here it ends. -->\n";

/// The table and its page in a checkout.
pub const TABLE: &str = "tests/chaos/sittings.toml";
pub const PAGE: &str = "docs/lab/reliability.md";

/// One sitting; what is not known of it is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sitting {
    /// plan, soak, patroni or replacements.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The day on which it began, or was written down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Its farm, and what else the machine did.
    pub farm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<f64>,
    /// That were begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<u64>,
    /// Of these: there was nothing that they could hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instants: Option<u64>,
    /// Seconds, and the bound, of the takeover that came closest to its bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<[f64; 2]>,
    /// The same of the time between an instant and the first line of its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<[f64; 2]>,
    /// What the judge rightly said against the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Why its faults do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<String>,
}

#[derive(Deserialize)]
struct Table {
    sitting: Vec<Sitting>,
}

impl Sitting {
    /// One that begins: it counts when it was judged.
    pub fn begin(plan: &Plan, kind: &str, commit: &str, date: &str) -> Self {
        let leases: Vec<String> = plan.shape.leases.iter().map(u64::to_string).collect();
        let pooler = if plan.shape.pgbouncer { ", PgBouncer" } else { "" };
        Self {
            kind: kind.to_owned(),
            seed: Some(plan.seed),
            date: Some(date.to_owned()),
            commit: Some(commit.to_owned()),
            farm: format!(
                "{} agents, leases of {} s{pooler}",
                plan.shape.agents,
                leases.join(", ")
            ),
            uncounted: Some("cut short before it was judged".to_owned()),
            ..Self::default()
        }
    }

    /// The same, judged.
    pub fn judged(self, outcome: &Outcome, stopped: bool) -> Self {
        let count = |n: usize| Some(u64::try_from(n).expect("a count"));
        let seconds = |t: Timed| [t.took, t.within].map(|d| (d.as_secs_f64() * 10.0).round() / 10.0);
        let missed: usize = outcome
            .faults
            .values()
            .map(|Met { begun, hit }| begun - hit)
            .sum();
        let violations = outcome.verdict.undeclared().count() + outcome.mismatches.len();
        Self {
            minutes: Some((outcome.lasted.as_secs_f64() / 6.0).round() / 10.0),
            faults: count(outcome.count()),
            missed: count(missed),
            runs: count(outcome.verdict.runs),
            attempts: count(outcome.verdict.attempts),
            instants: count(outcome.instants),
            takeover: Timed::closest(outcome.verdict.takeovers.iter().copied()).map(seconds),
            lateness: Timed::closest(outcome.begun.iter().copied()).map(seconds),
            violations: count(violations),
            found: stopped.then(|| "stopped by a signal; judged up to then".to_owned()),
            uncounted: None,
            ..self
        }
    }

    fn text(&self) -> String {
        format!("\n[[sitting]]\n{}", toml::to_string(self).expect("plain data"))
    }
}

/// # Errors
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<Vec<Sitting>, String> {
    let table: Table = toml::from_str(text).map_err(|e| format!("{TABLE}: {e}"))?;
    Ok(table.sitting)
}

/// The seed after all that were sat through.
pub fn next_seed(sittings: &[Sitting]) -> u64 {
    sittings.iter().filter_map(|s| s.seed).max().unwrap_or(0) + 1
}

/// The table with one more row.
#[must_use]
pub fn with(text: &str, sitting: &Sitting) -> String {
    text.to_owned() + &sitting.text()
}

/// The table with another row in the place of one. Others may have been added meanwhile.
///
/// # Errors
/// When that row is not in it.
pub fn replaced(text: &str, before: &Sitting, after: &Sitting) -> Result<String, String> {
    let row = before.text();
    if text.contains(&row) {
        Ok(text.replacen(&row, &after.text(), 1))
    } else {
        Err(format!(
            "{TABLE} has lost the row of seed {:?}: add it by hand:\n{}",
            before.seed,
            after.text()
        ))
    }
}

/// The page with its part as these sittings make it.
///
/// # Errors
/// When the page has no such part.
pub fn page(page: &str, sittings: &[Sitting]) -> Result<String, String> {
    let parts = page.split_once(BEGINS);
    let (before, rest) = parts.ok_or_else(|| format!("{PAGE} lacks the line {BEGINS:?}"))?;
    let rest = rest.split_once(ENDS);
    let (_, after) = rest.ok_or_else(|| format!("{PAGE} lacks the line {ENDS:?}"))?;
    Ok(format!("{before}{BEGINS}{}{ENDS}{after}", part(sittings)))
}

fn part(sittings: &[Sitting]) -> String {
    let mut text = "
| sitting | day, commit | farm | minutes | faults | met nothing | runs | attempts | due instants | takeover | lateness | violations | found |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"
    .to_owned();
    for s in sittings {
        let count = |n: Option<u64>| n.map(grouped).unwrap_or_default();
        let of = |t: Option<[f64; 2]>| t.map(|[took, within]| format!("{took} of {within}"));
        let seed = s.seed.map(|seed| format!("seed {seed}"));
        let cells = [
            [Some(s.kind.clone()), seed]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
            [s.date.clone(), s.commit.clone()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
            s.farm.clone(),
            s.minutes.map(|m| m.to_string()).unwrap_or_default(),
            count(s.faults),
            count(s.missed),
            count(s.runs),
            count(s.attempts),
            count(s.instants),
            of(s.takeover).unwrap_or_default(),
            of(s.lateness).unwrap_or_default(),
            count(s.violations),
            [
                s.uncounted.as_ref().map(|why| format!("not counted: {why}")),
                s.found.clone(),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; "),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let counted = || sittings.iter().filter(|s| s.uncounted.is_none());
    let sum = |of: fn(&Sitting) -> Option<u64>| counted().filter_map(of).sum::<u64>();
    let _ = writeln!(
        text,
        "\n{} of {} faults, {} violations, in {} sittings.\n",
        grouped(sum(|s| s.faults)),
        grouped(AIM),
        grouped(sum(|s| s.violations)),
        counted().count()
    );
    text
}

/// With a comma after each thousand.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The two files of a checkout, changed together.
///
/// # Errors
/// Those of the file system, or what is wrong with either file.
pub fn change(root: &Path, table: impl Fn(&str) -> Result<String, String>) -> Result<(), String> {
    let at = |name: &str| -> PathBuf { root.join(name) };
    let read = |name: &str| std::fs::read_to_string(at(name)).map_err(|e| format!("{name}: {e}"));
    let write = |name: &str, text: &str| std::fs::write(at(name), text).map_err(|e| format!("{name}: {e}"));
    let text = table(&read(TABLE)?)?;
    let whole = page(&read(PAGE)?, &parse(&text)?)?;
    write(TABLE, &text)?;
    write(PAGE, &whole)
}
