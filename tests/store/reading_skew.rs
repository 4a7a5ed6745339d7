//! Of a few jobs that run every two minutes and many that run once a day, each is read without a walk through the runs of the
//! others: with statistics or without, with a plan of its own or with one for all values.

use std::fs;
use std::path::Path;

use farmhand_tests::pg::Client;
use farmhand_tests::pg::TestDb;
use farmhand_tests::seed::partitions;
use serde_json::Value;

/// Pages of 8 kB that one question may look at: a few of each partition for each job or run. Walks through the others' runs took 2,500
/// to 62,000.
const PAGES: i64 = 1_800;

/// Four weeks of `often0` to `often3`, and of `daily0` to `daily19`; `never` has no run. Runs end in the order of their numbers.
const HISTORY: &str = "
INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at)
SELECT j, 1, '{\"schedule\": [\"0 3 * * *\"], \"triggered_by\": [], \"timezone\": \"UTC\", \"command\": [\"true\"]}',
    'jobs.toml', 'seed', statement_timestamp()
FROM (SELECT 'often' || n FROM generate_series(0, 3) n UNION ALL SELECT 'daily' || n FROM generate_series(0, 19) n
    UNION ALL VALUES ('never')) x(j);
INSERT INTO farmhand.job (job_id, rev, seq, enabled, scheduled, next_run, overlap, on_lost, priority, instances, each_node,
    source, applied_by, applied_at)
SELECT v.job_id, 1, row_number() OVER (), true, true, statement_timestamp() + interval '1 day', 'skip', 'rerun', 0, 1, false,
    'jobs.toml', 'seed', v.applied_at FROM farmhand.job_revision v;
INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, ended_by, running_at,
    session, attempt, fence, retries, takeovers, params, created_at, claimed_at, started_at, finished_at, exit_code, first_due,
    last_due, firing, ran_ms)
SELECT row_number() OVER (ORDER BY r.at, r.job), r.job, 1, 'scheduled', 0, 1, r.at, r.at, 'succeeded', 'holder', 'n1', 1, 1, 1, 0, 0,
    '{}', r.at, r.at, r.at, r.at + interval '1 s', 0, r.at, r.at, 
    CASE WHEN r.job LIKE 'daily%' THEN extract(epoch FROM r.at)::bigint END, 1000
FROM (SELECT 'often' || j AS job, statement_timestamp() - n * interval '2 min' AS at
        FROM generate_series(0, 3) j, generate_series(1, 20160) n
    UNION ALL SELECT 'daily' || j, statement_timestamp() - n * interval '1 day'
        FROM generate_series(0, 19) j, generate_series(1, 27) n) r
ORDER BY 1;
SELECT setval('farmhand.run_id_seq', 100000);
";

#[tokio::test]
async fn a_rare_job_is_read_without_a_walk_through_the_runs_of_others() {
    let test = TestDb::new().await;
    let sql = test.client().await;
    partitions(&sql).await;
    sql.exec(HISTORY).await;
    let mut faults = Vec::new();
    for statistics in ["none", "fresh"] {
        if statistics == "fresh" {
            sql.exec("ANALYZE farmhand.run_history, farmhand.run_live, farmhand.job, farmhand.job_revision")
                .await;
        }
        for plans in ["force_generic_plan", "force_custom_plan"] {
            for (name, values) in questions() {
                // Only the page asks it, with plans of its own.
                if name == "reading_days" && plans == "force_generic_plan" {
                    continue;
                }
                let pages = pages(&sql, plans, name, &values).await;
                println!("{name:<20} {statistics:<6} {plans:<18} {pages:>7} {values:?}");
                if pages > PAGES {
                    faults.push(format!(
                        "{name}({}), {plans}, statistics {statistics}: {pages} pages",
                        values.join(", ")
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A statement's name, or its text, and what it is asked.
fn questions() -> Vec<(&'static str, Vec<&'static str>)> {
    let (all, no_label, no_id) = ("'{}'::text[]", "NULL::jsonb", "NULL::bigint");
    let none = "NULL::text";
    let page = "51::bigint";
    let jobs = |only| {
        vec![
            only,
            none,
            none,
            none,
            no_label,
            none,
            page,
            "'name'::text",
            no_id,
        ]
    };
    let runs = |job, before, live, key| {
        vec![
            job, all, none, none, before, page, page, live, no_label, none, none, key,
        ]
    };
    let daily = "'daily7'::text";
    let never = "'never'::text";
    vec![
        ("reading_jobs", jobs(none)),
        ("reading_jobs", jobs(daily)),
        ("reading_lasted", vec!["ARRAY(SELECT job_id FROM farmhand.job)"]),
        ("reading_runs", runs(none, no_id, "false", none)),
        ("reading_runs", runs(none, no_id, "true", none)),
        ("reading_runs", runs(daily, no_id, "false", none)),
        ("reading_runs", runs(daily, "40000::bigint", "false", none)),
        ("reading_runs", runs(never, no_id, "false", none)),
        ("reading_runs", runs("'often1'::text", no_id, "false", none)),
        ("reading_runs", runs(daily, no_id, "false", "'a key'::text")),
        ("reading_job_runs", vec![daily, no_id, "64::bigint"]),
        ("reading_job_runs", vec![never, "40000::bigint", "64::bigint"]),
        ("reading_cells", vec![daily, "1000::bigint"]),
        ("reading_cells", vec![never, "1000::bigint"]),
        (
            "reading_days",
            vec![
                daily,
                "statement_timestamp() - interval '28 days'",
                "statement_timestamp()",
                "ARRAY(SELECT statement_timestamp() - n * interval '1 day' FROM generate_series(28, 0, -1) n)",
                "60000::bigint",
                "30000::bigint",
            ],
        ),
        (
            "reading_run",
            vec![
                "(SELECT max(run_id) FROM farmhand.run_history WHERE job_id = 'daily7')",
                daily,
                "1::bigint",
                "(SELECT max(firing) FROM farmhand.run_history WHERE job_id = 'daily7')",
            ],
        ),
        (
            "SELECT farmhand.parent_stands($1, $2, true)",
            vec![daily, "statement_timestamp()"],
        ),
        (
            "SELECT farmhand.parent_stands($1, $2, true)",
            vec![never, "statement_timestamp()"],
        ),
    ]
}

/// How many pages the executed plan looked at.
async fn pages(sql: &Client, plans: &str, name: &str, values: &[&str]) -> i64 {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/store/src/sql");
    let text = fs::read_to_string(dir.join(format!("{name}.sql"))).unwrap_or_else(|_| name.to_owned());
    let (mut kinds, mut literals) = (Vec::new(), Vec::new());
    for value in values {
        let row = sql
            .query_one(
                &format!("SELECT quote_nullable({value}), pg_typeof({value})::text"),
                &[],
            )
            .await
            .unwrap_or_else(|e| panic!("{name}: {value}: {e:?}"));
        literals.push(row.get::<_, String>(0));
        kinds.push(row.get::<_, String>(1));
    }
    sql.batch_execute(&format!(
        "SET enable_seqscan = off; SET jit = off; SET max_parallel_workers_per_gather = 0; SET plan_cache_mode = {plans};
         PREPARE asked ({}) AS {text}",
        kinds.join(", ")
    ))
    .await
    .unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let explain = format!(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked ({})",
        literals.join(", ")
    );
    let mut pages = 0;
    // The first one reads the catalogs, too.
    for _ in 0..2 {
        let row = sql
            .query_one(&explain, &[])
            .await
            .unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let plans: Value = row.get(0);
        let plan = &plans[0]["Plan"];
        let number = |key: &str| plan[key].as_i64().unwrap_or_default();
        pages = number("Shared Hit Blocks") + number("Shared Read Blocks");
    }
    sql.exec("DEALLOCATE asked").await;
    pages
}
