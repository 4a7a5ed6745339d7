//! What each statement that reads for a page is asked.

use farmhand_tests::seed::Size;

use super::reading_questions_runs;

/// Each with what it is asked, in the ways that take different paths.
pub fn questions(size: Size) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let run = size.runs - 100;
    let words = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let ways = |list: &[&[&str]]| list.iter().map(|way| words(way)).collect::<Vec<_>>();
    let id = run.to_string();
    let id = id.as_str();
    let newest =
        format!("ARRAY(SELECT n::bigint FROM generate_series({run}, {run} + 100) n ORDER BY n DESC)");
    let newest = newest.as_str();
    let job = "'job-00008'::text";
    let node = "'node-0003'::text";
    let none = "NULL::text";
    let all = "'{}'::text[]";
    let mut questions = vec![
        ("reading_farm", ways(&[&["20::bigint", "3::bigint"]])),
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
            "reading_output",
            ways(&[&[newest, "NULL::int", "1", "16000::bigint", "64::bigint"]]),
        ),
        (
            "reading_job_runs",
            ways(&[&[job, "NULL::bigint", "1000::bigint"], &[job, id, "100::bigint"]]),
        ),
        ("reading_lines", ways(&[&[id, "1", "-1::bigint", "256::bigint"]])),
        (
            "reading_days",
            ways(&[&[
                job,
                "statement_timestamp() - interval '90 days'",
                "statement_timestamp()",
                "ARRAY(SELECT statement_timestamp() - n * interval '1 day' FROM generate_series(90, 0, -1) n)",
                "60000::bigint",
                "30000::bigint",
            ]]),
        ),
        (
            "reading_run",
            ways(&[
                &[id, job, "2::bigint", "NULL::bigint"],
                &[id, job, "2::bigint", id],
            ]),
        ),
        (
            "reading_lasted",
            ways(&[&["ARRAY['job-00500', 'job-00007']::text[]"]]),
        ),
        (
            "reading_jobs",
            ways(&[
                &[
                    none,
                    none,
                    none,
                    none,
                    "NULL::jsonb",
                    none,
                    "51::bigint",
                    "'name'",
                    "NULL::bigint",
                ],
                &[
                    none,
                    none,
                    none,
                    none,
                    "NULL::jsonb",
                    "'job-00500'::text",
                    "201::bigint",
                    "'name'",
                    "0::bigint",
                ],
                &[
                    none,
                    "'99'::text",
                    "'failing'::text",
                    "'scheduled'::text",
                    "'{\"role\": \"web\"}'::jsonb",
                    none,
                    "51::bigint",
                    "'name'",
                    "NULL::bigint",
                ],
                &[
                    none,
                    none,
                    "'running'::text",
                    none,
                    "NULL::jsonb",
                    none,
                    "51::bigint",
                    "'name'",
                    "NULL::bigint",
                ],
                &[
                    job,
                    none,
                    none,
                    none,
                    "NULL::jsonb",
                    none,
                    "1::bigint",
                    "'name'",
                    "NULL::bigint",
                ],
                &[
                    none,
                    none,
                    none,
                    none,
                    "NULL::jsonb",
                    "'job-00500'::text",
                    "51::bigint",
                    "'failures'",
                    "-3::bigint",
                ],
                &[
                    none,
                    none,
                    none,
                    none,
                    "NULL::jsonb",
                    "'job-00500'::text",
                    "51::bigint",
                    "'next'",
                    "1790000000000000::bigint",
                ],
                &[
                    none,
                    none,
                    none,
                    none,
                    "NULL::jsonb",
                    "'job-00500'::text",
                    "51::bigint",
                    "'last_end'",
                    "-1790000000000000::bigint",
                ],
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
        (
            "reading_outages",
            ways(&[&[
                "statement_timestamp() - interval '7 days'",
                "statement_timestamp()",
                all,
            ]]),
        ),
        (
            "reading_heirs",
            ways(&[&[
                "'{1,2,3}'::bigint[]",
                "'{2,2,2}'::integer[]",
                "now() - interval '1 hour'",
                "now()",
                "'{}'::text[]",
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
        ("reading_farm_totals", ways(&[&[]])),
        ("live_runs", ways(&[&[job, "NULL::bigint"], &[job, id]])),
        ("runs_at", ways(&[&[job, "statement_timestamp()"]])),
        (
            "snapshot_specs",
            ways(&[&["'[{\"job_id\": \"job-00008\", \"rev\": 1}]'::json"]]),
        ),
        ("gate_facts", ways(&[&[job, "2::bigint", id]])),
        (
            "reading_observed",
            ways(&[
                &[
                    job,
                    "statement_timestamp() - interval '7 days'",
                    "statement_timestamp()",
                    "NULL::bigint",
                    "10000::bigint",
                ],
                &[
                    job,
                    "statement_timestamp() - interval '7 days'",
                    "statement_timestamp()",
                    id,
                    "10000::bigint",
                ],
            ]),
        ),
    ];
    questions.extend(reading_questions_runs::questions(size));
    questions
}
