//! What the statements of lists of runs are asked.

use farmhand_tests::seed::Size;

const JOB: &str = "'job-00008'::text";
const NODE: &str = "'node-0003'::text";
const LOOKS_THROUGH: &str = "10000::bigint";
const LABEL: &str = "'{\"role\": \"web\"}'::jsonb";
const TENANT: &str = "'tenant'::text";
const NONE: &str = "NULL::text";

/// Of `reading_runs`, by position from 1: nothing is filtered.
const RUNS: [&str; 12] = [
    NONE,
    "'{}'::text[]",
    NONE,
    NONE,
    "NULL::bigint",
    "51::bigint",
    "51::bigint",
    "false",
    "NULL::jsonb",
    NONE,
    NONE,
    NONE,
];

/// Of `reading_runs_ended`.
const ENDED: [&str; 14] = [
    NONE,
    "'{}'::text[]",
    NONE,
    NONE,
    "NULL::timestamptz",
    "NULL::timestamptz",
    "NULL::timestamptz",
    "NULL::bigint",
    "51::bigint",
    LOOKS_THROUGH,
    NONE,
    "NULL::jsonb",
    NONE,
    NONE,
];

pub fn questions(size: Size) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let id = (size.runs - 100).to_string();
    let id = id.as_str();
    let runs = |changes: &[(usize, &str)]| with(&RUNS, changes);
    let by_state = |changes: &[(usize, &str)]| with(&RUNS[..11], changes);
    let ended = |changes: &[(usize, &str)]| with(&ENDED, changes);
    let all_of = (7, LOOKS_THROUGH);
    vec![
        (
            "reading_runs",
            vec![
                runs(&[]),
                runs(&[(5, id)]),
                runs(&[(1, JOB)]),
                runs(&[(1, JOB), (2, "'{failed}'::text[]"), all_of]),
                runs(&[(3, NODE), all_of]),
                runs(&[(3, "'nowhere'::text"), all_of]),
                runs(&[(2, "'{due,running}'::text[]"), all_of, (8, "true")]),
                runs(&[
                    (2, "'{succeeded}'::text[]"),
                    (4, "'backfill'::text"),
                    (5, id),
                    all_of,
                ]),
                runs(&[(1, JOB), (12, "'a key'::text")]),
                runs(&[(9, LABEL), all_of]),
                runs(&[(5, id), (10, TENANT), (11, "'no such'::text"), all_of]),
            ],
        ),
        (
            "reading_runs_by_state",
            vec![
                by_state(&[(2, "'{failed,lost}'::text[]")]),
                by_state(&[(2, "'{failed}'::text[]"), (3, NODE), (5, id), all_of]),
                by_state(&[
                    (2, "'{failed}'::text[]"),
                    (9, LABEL),
                    (10, TENANT),
                    (11, "'no such'::text"),
                    all_of,
                ]),
            ],
        ),
        (
            "reading_runs_ended",
            vec![
                ended(&[(5, "statement_timestamp() - interval '1 day'")]),
                ended(&[
                    (3, NODE),
                    (6, "statement_timestamp() - interval '20 days'"),
                    (7, "statement_timestamp() - interval '21 days'"),
                    (8, id),
                ]),
                ended(&[
                    (5, "statement_timestamp() - interval '1 day'"),
                    (12, LABEL),
                    (13, TENANT),
                    (14, "'no such'::text"),
                ]),
            ],
        ),
    ]
}

/// These parameters, but for some.
fn with(params: &[&str], changes: &[(usize, &str)]) -> Vec<String> {
    let mut params: Vec<String> = params.iter().map(|text| (*text).to_owned()).collect();
    for (position, text) in changes {
        params[position - 1] = (*text).to_owned();
    }
    params
}
