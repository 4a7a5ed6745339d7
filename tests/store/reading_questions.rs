//! What each statement that reads for a page is asked.

use farmhand_tests::seed::Size;

/// A statement and what it is asked, in the ways that take different paths.
const QUESTIONS: &str = r#"
reading_farm           20::bigint | 3::bigint
reading_clock
reading_marks          NULL::timestamptz
reading_marks          statement_timestamp() - interval '1 minute'
reading_log            {run} | NULL::int
reading_log            {run} | 1
reading_output         {newest} | NULL::int | 1 | 16000::bigint | 64::bigint
reading_job_runs       {job} | NULL::bigint | 1000::bigint
reading_job_runs       {job} | {run} | 100::bigint
reading_lines          {run} | 1 | -1::bigint | 256::bigint
reading_days           {job} | statement_timestamp() - interval '90 days' | statement_timestamp() | ARRAY(SELECT statement_timestamp() - n * interval '1 day' FROM generate_series(90, 0, -1) n) | 60000::bigint | 30000::bigint
reading_run            {run} | {job} | 2::bigint | NULL::bigint
reading_run            {run} | {job} | 2::bigint | {run}
reading_lasted         ARRAY['job-00500', 'job-00007']::text[]
reading_jobs           {none} | {none} | {none} | {none} | NULL::jsonb | {none} | 51::bigint | 'name' | NULL::bigint
reading_jobs           {none} | {none} | {none} | {none} | NULL::jsonb | 'job-00500'::text | 201::bigint | 'name' | 0::bigint
reading_jobs           {none} | '99'::text | 'failing'::text | 'scheduled'::text | '{"role": "web"}'::jsonb | {none} | 51::bigint | 'name' | NULL::bigint
reading_jobs           {none} | {none} | 'running'::text | {none} | NULL::jsonb | {none} | 51::bigint | 'name' | NULL::bigint
reading_jobs           {job} | {none} | {none} | {none} | NULL::jsonb | {none} | 1::bigint | 'name' | NULL::bigint
reading_jobs           {none} | {none} | {none} | {none} | NULL::jsonb | 'job-00500'::text | 51::bigint | 'failures' | -3::bigint
reading_jobs           {none} | {none} | {none} | {none} | NULL::jsonb | 'job-00500'::text | 51::bigint | 'next' | 1790000000000000::bigint
reading_jobs           {none} | {none} | {none} | {none} | NULL::jsonb | 'job-00500'::text | 51::bigint | 'last_end' | -1790000000000000::bigint
reading_cells          {job} | 200::bigint
reading_revisions      {job} | NULL::bigint | 51::bigint
reading_diff           {job} | NULL::bigint | NULL::bigint
reading_nodes          {none} | {none} | {none} | 51::bigint
reading_nodes          {node} | {none} | {none} | 1::bigint
reading_nodes          {none} | 'lost'::text | {node} | 201::bigint
reading_leases         {none} | NULL::bigint | 201::bigint
reading_pools          {none} | {none} | 51::bigint
reading_events         {none} | NULL::bigint | {none} | {all} | '{info,warning,error}'::text[] | NULL::timestamptz | NULL::timestamptz | NULL::bigint | 51::bigint | 10000::bigint
reading_events         'nothing'::text | NULL::bigint | {none} | '{audit}'::text[] | '{error}'::text[] | NULL::timestamptz | NULL::timestamptz | 25000::bigint | 51::bigint | 10000::bigint
reading_events         {none} | {run} | {none} | {all} | '{info,warning,error}'::text[] | NULL::timestamptz | NULL::timestamptz | NULL::bigint | 51::bigint | 10000::bigint
reading_events         {none} | NULL::bigint | {node} | {all} | '{info,warning,error}'::text[] | statement_timestamp() - interval '3 days' | statement_timestamp() | NULL::bigint | 51::bigint | 10000::bigint
reading_lane_nodes     {all}
reading_lane_nodes     '{node-0001,node-0002}'::text[]
reading_bars           statement_timestamp() - interval '1 hour' | statement_timestamp() | {all} | {none} | 2001::bigint
reading_bars           statement_timestamp() - interval '7 days' | statement_timestamp() | {all} | {none} | 2001::bigint
reading_bars           statement_timestamp() - interval '30 days' | statement_timestamp() - interval '29 days' | '{node-0001}'::text[] | {none} | 2001::bigint
reading_bands          statement_timestamp() - interval '7 days' | statement_timestamp() | {all} | {none} | '{node-0001}'::text[] | 60::bigint | 500::bigint
reading_outages        statement_timestamp() - interval '7 days' | statement_timestamp() | {all}
reading_heirs          '{1,2,3}'::bigint[] | '{2,2,2}'::integer[] | now() - interval '1 hour' | now() | '{}'::text[]
reading_fences         '{1,2,3}'::bigint[]
run                    {run}
attempts               {run}
progress               {run}
log_extents            {run}
read_log               {run} | 1 | -1::bigint | 16::bigint
read_log_from          {run} | 1 | 100000::bigint
tasks                  {run}
triggers               {job}
list_jobs              {job} | {none} | 1::bigint
reading_farm_totals
live_runs              {job} | NULL::bigint
live_runs              {job} | {run}
runs_at                {job} | statement_timestamp()
snapshot_specs         '[{"job_id": "job-00008", "rev": 1}]'::json
gate_facts             {job} | 2::bigint | {run}
reading_observed       {job} | statement_timestamp() - interval '7 days' | statement_timestamp() | NULL::bigint | 10000::bigint
reading_observed       {job} | statement_timestamp() - interval '7 days' | statement_timestamp() | {run} | 10000::bigint
reading_runs           {none} | {all} | {none} | {none} | NULL::bigint | 51::bigint | 51::bigint | false | NULL::jsonb | {none} | {none} | {none}
reading_runs           {none} | {all} | {none} | {none} | {run} | 51::bigint | 51::bigint | false | NULL::jsonb | {none} | {none} | {none}
reading_runs           {job} | {all} | {none} | {none} | NULL::bigint | 51::bigint | 51::bigint | false | NULL::jsonb | {none} | {none} | {none}
reading_runs           {job} | '{failed}'::text[] | {none} | {none} | NULL::bigint | 51::bigint | 10000::bigint | false | NULL::jsonb | {none} | {none} | {none}
reading_runs           {none} | {all} | {node} | {none} | NULL::bigint | 51::bigint | 10000::bigint | false | NULL::jsonb | {none} | {none} | {none}
reading_runs           {none} | {all} | 'nowhere'::text | {none} | NULL::bigint | 51::bigint | 10000::bigint | false | NULL::jsonb | {none} | {none} | {none}
reading_runs           {none} | '{due,running}'::text[] | {none} | {none} | NULL::bigint | 51::bigint | 10000::bigint | true | NULL::jsonb | {none} | {none} | {none}
reading_runs           {none} | '{succeeded}'::text[] | {none} | 'backfill'::text | {run} | 51::bigint | 10000::bigint | false | NULL::jsonb | {none} | {none} | {none}
reading_runs           {job} | {all} | {none} | {none} | NULL::bigint | 51::bigint | 51::bigint | false | NULL::jsonb | {none} | {none} | 'a key'::text
reading_runs           {none} | {all} | {none} | {none} | NULL::bigint | 51::bigint | 10000::bigint | false | '{"role": "web"}'::jsonb | {none} | {none} | {none}
reading_runs           {none} | {all} | {none} | {none} | {run} | 51::bigint | 10000::bigint | false | NULL::jsonb | 'tenant'::text | 'no such'::text | {none}
reading_runs_by_state  {none} | '{failed,lost}'::text[] | {none} | {none} | NULL::bigint | 51::bigint | 51::bigint | false | NULL::jsonb | {none} | {none}
reading_runs_by_state  {none} | '{failed}'::text[] | {node} | {none} | {run} | 51::bigint | 10000::bigint | false | NULL::jsonb | {none} | {none}
reading_runs_by_state  {none} | '{failed}'::text[] | {none} | {none} | NULL::bigint | 51::bigint | 10000::bigint | false | '{"role": "web"}'::jsonb | 'tenant'::text | 'no such'::text
reading_runs_ended     {none} | {all} | {none} | {none} | statement_timestamp() - interval '1 day' | NULL::timestamptz | NULL::timestamptz | NULL::bigint | 51::bigint | 10000::bigint | {none} | NULL::jsonb | {none} | {none}
reading_runs_ended     {none} | {all} | {node} | {none} | NULL::timestamptz | statement_timestamp() - interval '20 days' | statement_timestamp() - interval '21 days' | {run} | 51::bigint | 10000::bigint | {none} | NULL::jsonb | {none} | {none}
reading_runs_ended     {none} | {all} | {none} | {none} | statement_timestamp() - interval '1 day' | NULL::timestamptz | NULL::timestamptz | NULL::bigint | 51::bigint | 10000::bigint | {none} | '{"role": "web"}'::jsonb | 'tenant'::text | 'no such'::text
"#;

/// Each statement with one way of asking it.
pub fn questions(size: Size) -> Vec<(String, Vec<String>)> {
    let run = size.runs - 100;
    let newest =
        format!("ARRAY(SELECT n::bigint FROM generate_series({run}, {run} + 100) n ORDER BY n DESC)");
    let text = QUESTIONS
        .replace("{run}", &run.to_string())
        .replace("{newest}", &newest)
        .replace("{job}", "'job-00008'::text")
        .replace("{node}", "'node-0003'::text")
        .replace("{none}", "NULL::text")
        .replace("{all}", "'{}'::text[]");
    let question = |line: &str| {
        let (name, asked) = line.split_once(' ').unwrap_or((line, ""));
        let asked = asked.trim().split(" | ").filter(|value| !value.is_empty());
        (name.to_owned(), asked.map(str::to_owned).collect())
    };
    text.trim().lines().map(question).collect()
}
