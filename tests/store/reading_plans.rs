//! No statement that reads for a page scans runs, attempts or events as a whole, or counts them.
//!
//! `FARMHAND_SEED=full` looks at a million runs instead of 50,000.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use farmhand_tests::pg::TestDb;
use farmhand_tests::seed::{Size, seed};
use serde_json::Value;
use tokio_postgres::Client;

/// Tables that grow without bound, with their partitions.
const LARGE: [&str; 5] = ["run_history", "run_live", "attempt", "event", "run_log"];
/// Rows of them that one page may look at.
const LOOKED_AT: f64 = 35_000.0;

/// Statements of pages that are not named `reading_…`, because commands use them too.
const SHARED: [&str; 14] = [
    "run",
    "attempts",
    "progress",
    "log_extents",
    "read_log",
    "read_log_from",
    "tasks",
    "triggers",
    "list_jobs",
    "nodes",
    "live_runs",
    "runs_at",
    "snapshot_specs",
    "gate_facts",
];

/// Each with what it is asked, in the ways that take different paths.
fn questions(size: Size) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let run = size.runs - 100;
    let words = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let ways = |list: &[&[&str]]| list.iter().map(|way| words(way)).collect::<Vec<_>>();
    let id = run.to_string();
    let id = id.as_str();
    let job = "'job-00008'::text";
    let node = "'node-0003'::text";
    let none = "NULL::text";
    let all = "'{}'::text[]";
    vec![
        ("reading_farm", ways(&[&["20::bigint"]])),
        ("reading_clock", ways(&[&[]])),
        (
            "reading_marks",
            ways(&[
                &["NULL::timestamptz"],
                &["statement_timestamp() - interval '1 minute'"],
            ]),
        ),
        ("reading_log", ways(&[&[id, "NULL::int"], &[id, "1"]])),
        (
            "reading_runs",
            ways(&[
                &[
                    none,
                    all,
                    none,
                    none,
                    "NULL::bigint",
                    "51::bigint",
                    "51::bigint",
                    "false",
                ],
                &[none, all, none, none, id, "51::bigint", "51::bigint", "false"],
                &[
                    job,
                    all,
                    none,
                    none,
                    "NULL::bigint",
                    "51::bigint",
                    "51::bigint",
                    "false",
                ],
                &[
                    job,
                    "'{failed}'::text[]",
                    none,
                    none,
                    "NULL::bigint",
                    "51::bigint",
                    "10000::bigint",
                    "false",
                ],
                &[
                    none,
                    all,
                    node,
                    none,
                    "NULL::bigint",
                    "51::bigint",
                    "10000::bigint",
                    "false",
                ],
                &[
                    none,
                    all,
                    "'nowhere'::text",
                    none,
                    "NULL::bigint",
                    "51::bigint",
                    "10000::bigint",
                    "false",
                ],
                &[
                    none,
                    "'{due,running}'::text[]",
                    none,
                    none,
                    "NULL::bigint",
                    "51::bigint",
                    "10000::bigint",
                    "true",
                ],
                &[
                    none,
                    "'{succeeded}'::text[]",
                    none,
                    "'backfill'::text",
                    id,
                    "51::bigint",
                    "10000::bigint",
                    "false",
                ],
            ]),
        ),
        (
            "reading_runs_by_state",
            ways(&[
                &[
                    none,
                    "'{failed,lost}'::text[]",
                    none,
                    none,
                    "NULL::bigint",
                    "51::bigint",
                    "51::bigint",
                    "false",
                ],
                &[
                    none,
                    "'{failed}'::text[]",
                    node,
                    none,
                    id,
                    "51::bigint",
                    "10000::bigint",
                    "false",
                ],
            ]),
        ),
        (
            "reading_runs_ended",
            ways(&[
                &[
                    none,
                    all,
                    none,
                    none,
                    "statement_timestamp() - interval '1 day'",
                    "NULL::timestamptz",
                    "NULL::timestamptz",
                    "NULL::bigint",
                    "51::bigint",
                    "10000::bigint",
                ],
                &[
                    none,
                    all,
                    node,
                    none,
                    "NULL::timestamptz",
                    "statement_timestamp() - interval '20 days'",
                    "statement_timestamp() - interval '21 days'",
                    id,
                    "51::bigint",
                    "10000::bigint",
                ],
            ]),
        ),
        (
            "reading_run",
            ways(&[
                &[id, job, "2::bigint", "NULL::bigint"],
                &[id, job, "2::bigint", id],
            ]),
        ),
        (
            "reading_jobs",
            ways(&[
                &[none, none, none, none, "NULL::jsonb", none, "51::bigint"],
                &[
                    none,
                    none,
                    none,
                    none,
                    "NULL::jsonb",
                    "'job-00500'::text",
                    "201::bigint",
                ],
                &[
                    none,
                    "'99'::text",
                    "'failing'::text",
                    "'scheduled'::text",
                    "'{\"role\": \"web\"}'::jsonb",
                    none,
                    "51::bigint",
                ],
                &[
                    none,
                    none,
                    "'running'::text",
                    none,
                    "NULL::jsonb",
                    none,
                    "51::bigint",
                ],
                &[job, none, none, none, "NULL::jsonb", none, "1::bigint"],
            ]),
        ),
        ("reading_cells", ways(&[&[job, "200::bigint"]])),
        ("reading_revisions", ways(&[&[job, "NULL::bigint", "51::bigint"]])),
        ("reading_diff", ways(&[&[job, "NULL::bigint", "NULL::bigint"]])),
        (
            "reading_nodes",
            ways(&[
                &[none, none, none, "51::bigint"],
                &[node, none, none, "1::bigint"],
                &[none, "'lost'::text", node, "201::bigint"],
            ]),
        ),
        ("reading_leases", ways(&[&[none, "NULL::bigint", "201::bigint"]])),
        ("reading_pools", ways(&[&[none, none, "51::bigint"]])),
        (
            "reading_events",
            ways(&[
                &[
                    none,
                    "NULL::bigint",
                    none,
                    all,
                    "'{info,warning,error}'::text[]",
                    "NULL::timestamptz",
                    "NULL::timestamptz",
                    "NULL::bigint",
                    "51::bigint",
                    "10000::bigint",
                ],
                &[
                    "'nothing'::text",
                    "NULL::bigint",
                    none,
                    "'{audit}'::text[]",
                    "'{error}'::text[]",
                    "NULL::timestamptz",
                    "NULL::timestamptz",
                    "25000::bigint",
                    "51::bigint",
                    "10000::bigint",
                ],
                &[
                    none,
                    id,
                    none,
                    all,
                    "'{info,warning,error}'::text[]",
                    "NULL::timestamptz",
                    "NULL::timestamptz",
                    "NULL::bigint",
                    "51::bigint",
                    "10000::bigint",
                ],
                &[
                    none,
                    "NULL::bigint",
                    node,
                    all,
                    "'{info,warning,error}'::text[]",
                    "statement_timestamp() - interval '3 days'",
                    "statement_timestamp()",
                    "NULL::bigint",
                    "51::bigint",
                    "10000::bigint",
                ],
            ]),
        ),
        (
            "reading_lane_nodes",
            ways(&[&[all], &["'{node-0001,node-0002}'::text[]"]]),
        ),
        (
            "reading_bars",
            ways(&[
                &[
                    "statement_timestamp() - interval '1 hour'",
                    "statement_timestamp()",
                    all,
                    none,
                    "2001::bigint",
                ],
                &[
                    "statement_timestamp() - interval '7 days'",
                    "statement_timestamp()",
                    all,
                    none,
                    "2001::bigint",
                ],
                &[
                    "statement_timestamp() - interval '30 days'",
                    "statement_timestamp() - interval '29 days'",
                    "'{node-0001}'::text[]",
                    none,
                    "2001::bigint",
                ],
            ]),
        ),
        (
            "reading_bands",
            ways(&[&[
                "statement_timestamp() - interval '7 days'",
                "statement_timestamp()",
                all,
                none,
                "'{node-0001}'::text[]",
                "60::bigint",
                "500::bigint",
            ]]),
        ),
        ("reading_fences", ways(&[&["'{1,2,3}'::bigint[]"]])),
        ("run", ways(&[&[id]])),
        ("attempts", ways(&[&[id]])),
        ("progress", ways(&[&[id]])),
        ("log_extents", ways(&[&[id]])),
        ("read_log", ways(&[&[id, "1", "-1::bigint", "16::bigint"]])),
        ("read_log_from", ways(&[&[id, "1", "100000::bigint"]])),
        ("tasks", ways(&[&[id]])),
        ("triggers", ways(&[&[job]])),
        ("list_jobs", ways(&[&[job, none, "1::bigint"]])),
        ("nodes", ways(&[&[none]])),
        ("live_runs", ways(&[&[job]])),
        ("runs_at", ways(&[&[job, "statement_timestamp()"]])),
        (
            "snapshot_specs",
            ways(&[&["'[{\"job_id\": \"job-00008\", \"rev\": 1}]'::json"]]),
        ),
        ("gate_facts", ways(&[&[job, "2::bigint", id]])),
    ]
}

#[tokio::test]
async fn no_page_scans_or_counts_runs_attempts_or_events() {
    let size = match std::env::var("FARMHAND_SEED").as_deref() {
        Ok("full") => Size::FULL,
        _ => Size::SMALL,
    };
    let test = TestDb::new().await;
    let sql = test.client().await;
    seed(&sql, size).await;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/src/store/sql");
    let asked = questions(size);
    let known: BTreeSet<&str> = asked.iter().map(|(name, _)| *name).collect();
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
    for (name, ways) in asked {
        let text = fs::read_to_string(dir.join(format!("{name}.sql"))).unwrap();
        for way in ways {
            let plan = plan(&sql, name, &text, &way).await;
            let mut found = Faults::default();
            look(&plan["Plan"], false, &mut found);
            let took = plan["Execution Time"].as_f64().unwrap_or_default();
            println!("{name:<24} {took:>8.2} ms {:>8} rows of large tables", found.rows);
            if found.rows > LOOKED_AT {
                found.faults.insert(format!("looks at {} rows", found.rows));
            }
            faults.extend(
                found
                    .faults
                    .into_iter()
                    .map(|fault| format!("{name}({}): {fault}", way.join(", "))),
            );
        }
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
    sql.batch_execute(settings).await.unwrap();
    let row = sql
        .query_one(&format!("EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) {text}"), &[])
        .await
        .unwrap_or_else(|e| panic!("{name}: {e:?}\n{text}"));
    sql.batch_execute("COMMIT").await.unwrap();
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
