//! No statement that reads for a page scans runs, attempts or events as a whole, or counts them.
//!
//! `FARMHAND_SEED=full` looks at a million runs instead of 50,000.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use farmhand_tests::pg::Client;
use farmhand_tests::pg::TestDb;
use farmhand_tests::seed::{Size, seed};
use serde_json::Value;

use super::reading_questions::questions;

/// Tables that grow without bound, with their partitions.
const LARGE: [&str; 5] = ["run_history", "run_live", "attempt", "event", "run_log"];
/// Rows of them that one page may look at.
const LOOKED_AT: f64 = 35_000.0;

/// Statements of pages that are not named `reading_…`, because commands use them too.
const SHARED: [&str; 13] = [
    "run",
    "attempts",
    "progress",
    "log_extents",
    "read_log",
    "read_log_from",
    "tasks",
    "triggers",
    "list_jobs",
    "live_runs",
    "runs_at",
    "snapshot_specs",
    "gate_facts",
];

#[tokio::test]
async fn no_page_scans_or_counts_runs_attempts_or_events() {
    let size = match std::env::var("FARMHAND_SEED").as_deref() {
        Ok("full") => Size::FULL,
        _ => Size::SMALL,
    };
    let test = TestDb::new().await;
    let sql = test.client().await;
    seed(&sql, size).await;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/store/src/sql");
    let asked = questions(size);
    let known: BTreeSet<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
    for entry in fs::read_dir(&dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.trim_end_matches(".sql");
        let must = stem.starts_with("reading_") || SHARED.contains(&stem);
        assert!(
            !must || known.contains(stem),
            "{name} has no question in this test"
        );
    }
    let mut faults = Vec::new();
    for (name, way) in asked {
        let text = fs::read_to_string(dir.join(format!("{name}.sql"))).unwrap();
        let plan = plan(&sql, &name, &text, &way).await;
        let mut found = Faults::default();
        look(&plan["Plan"], false, &mut found);
        let took = plan["Execution Time"].as_f64().unwrap_or_default();
        println!("{name:<24} {took:>8.2} ms {:>8} rows of large tables", found.rows);
        if found.rows > LOOKED_AT {
            found.faults.insert(format!("looks at {} rows", found.rows));
        }
        let said = |fault| format!("{name}({}): {fault}", way.join(", "));
        faults.extend(found.faults.into_iter().map(said));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The plan as the reading pool would get it, executed.
async fn plan(sql: &Client, name: &str, text: &str, way: &[String]) -> Value {
    let mut text = text.to_owned();
    for (index, value) in way.iter().enumerate().rev() {
        // Values are sent as constants too, so that partitions are left out when planning.
        let row = sql
            .query_one(
                &format!("SELECT quote_nullable({value}), pg_typeof({value})::text"),
                &[],
            )
            .await;
        let row = row.unwrap_or_else(|e| panic!("{name}: {value}: {e:?}"));
        let (literal, kind): (String, String) = (row.get(0), row.get(1));
        text = text.replace(&format!("${}", index + 1), &format!("({literal}::{kind})"));
    }
    let settings = "BEGIN READ ONLY; SET LOCAL enable_seqscan = off; SET LOCAL jit = off; \
                    SET LOCAL max_parallel_workers_per_gather = 0";
    sql.exec(settings).await;
    let row = sql
        .query_one(&format!("EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) {text}"), &[])
        .await
        .unwrap_or_else(|e| panic!("{name}: {e:?}\n{text}"));
    sql.exec("COMMIT").await;
    let plans: Value = row.get(0);
    plans[0].clone()
}

#[derive(Default)]
struct Faults {
    faults: BTreeSet<String>,
    /// Of large tables, read and thrown away ones included.
    rows: f64,
}

/// `counted`: an aggregate above counts all that comes, with no limit between.
fn look(node: &Value, counted: bool, found: &mut Faults) {
    let kind = node["Node Type"].as_str().unwrap_or_default();
    let table = node["Relation Name"].as_str().unwrap_or_default();
    if LARGE
        .iter()
        .any(|large| table == *large || table.starts_with(&format!("{large}_")))
    {
        if kind == "Seq Scan" {
            found.faults.insert(format!("Seq Scan of {table}"));
        }
        // The output of one run is bounded by its job's `output.keep`.
        if counted && !table.starts_with("run_log") {
            found.faults.insert(format!("counts {table} without a bound"));
        }
        let number = |key: &str| node[key].as_f64().unwrap_or_default();
        found.rows += (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops");
    }
    let counts = kind == "Aggregate"
        && (node["Output"].as_array().into_iter().flatten())
            .any(|output| output.as_str().is_some_and(|text| text.contains("count(")));
    let counted = kind != "Limit" && (counts || counted);
    for child in node["Plans"].as_array().into_iter().flatten() {
        // A subplan is evaluated for each row; what it counts is its own.
        let own = matches!(
            child["Parent Relationship"].as_str(),
            Some("SubPlan" | "InitPlan")
        );
        look(child, counted && !own, found);
    }
}
