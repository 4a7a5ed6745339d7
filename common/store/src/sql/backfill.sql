-- After backfill_lock, so that this snapshot has what an earlier backfill made. One run at a time and node, the
-- oldest first, whatever the job's own overlap rule is.
WITH wanted AS MATERIALIZED (
    SELECT array_agg(d.due_at ORDER BY d.due_at) AS due
    FROM unnest($2::timestamptz[]) AS d(due_at)
    WHERE d.due_at NOT IN (SELECT r.due_at FROM farmhand.run_live r
            WHERE r.job_id = $1 AND r.kind IN ('scheduled', 'backfill'))
        AND d.due_at NOT IN (SELECT r.due_at FROM farmhand.run_history r
            WHERE r.job_id = $1 AND r.kind IN ('scheduled', 'backfill') AND (r.state <> 'skipped' OR r.reason = 'observed'))
        -- A week that was dropped since the plan was made: whether its instants ran is unknown.
        AND (d.due_at >= (SELECT min(h.until) - interval '7 days' FROM farmhand.history_partition h
                WHERE h.parent = 'run_history')
            OR d.due_at < (SELECT min(v.applied_at) FROM farmhand.job_revision v WHERE v.job_id = $1))
), made AS MATERIALIZED (
    SELECT m.run_ids, m.skipped, w.due
    FROM wanted w CROSS JOIN LATERAL farmhand.make_runs('backfill', ARRAY[jsonb_populate_record(NULL::farmhand.want,
        jsonb_build_object('job_id', $1::text, 'due', coalesce(w.due, '{}'), 'overlap', 'queue', 'made', jsonb_build_object('submitted_by', $3::text)))]) m
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
    SELECT statement_timestamp(), 'backfill', 'info', $1, jsonb_build_object('by', $3::text, 'runs', cardinality(m.run_ids),
        'from', m.due[1], 'to', m.due[cardinality(m.due)])
    FROM made m WHERE m.run_ids <> '{}'
)
SELECT m.skipped = '[]' AS placed, m.run_ids FROM made m
