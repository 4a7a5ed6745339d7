-- As reading_runs, of all jobs, for ends that an index knows: all but success. $7 of each state.
WITH scanned AS MATERIALIZED (
    SELECT f.run_id, f.running_at, f.kind
    FROM unnest($2::text[]) AS s(state)
    CROSS JOIN LATERAL (
        SELECT r.run_id, r.running_at, r.kind FROM farmhand.run_history r
        WHERE NOT $8 AND r.state <> 'succeeded' AND r.state = s.state AND ($5::bigint IS NULL OR r.run_id < $5)
        ORDER BY r.run_id DESC
        LIMIT $7
    ) f
    ORDER BY f.run_id DESC
    LIMIT $7
), picked AS MATERIALIZED (
    SELECT s.run_id FROM scanned s
    WHERE $1::text IS NULL AND ($3::text IS NULL OR s.running_at = $3) AND ($4::text IS NULL OR s.kind = $4)
    ORDER BY s.run_id DESC
    LIMIT $6
)
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(i) ORDER BY i.run_id DESC), '[]') FROM picked p CROSS JOIN LATERAL (
        SELECT r.run_id, r.job_id, r.kind, r.instance, r.instances, r.state, r.reason, r.running_at, r.attempt, r.fence, r.retries,
        r.takeovers, r.due_at, r.claimed_at, r.started_at, r.finished_at, r.exit_code, r.signal, r.count, r.key, r.firing,
        r.cancel_requested
        FROM farmhand.run r WHERE r.run_id = p.run_id LIMIT 1) i) AS items,
    (SELECT count(*) FROM scanned) AS scanned, (SELECT min(s.run_id) FROM scanned s) AS floor
