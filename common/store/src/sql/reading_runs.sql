-- The newest $7 of a job, or of all, before $5; of those the first $6 that the filter wants.
WITH scanned AS MATERIALIZED (
    SELECT r.run_id, r.state, r.running_at, r.kind
    FROM farmhand.run r
    WHERE ($1::text IS NULL OR r.job_id = $1) AND ($5::bigint IS NULL OR r.run_id < $5)
        AND ($9::text IS NULL OR (md5(r.key) = md5($9) AND r.key = $9))
        -- The history's CHECK says that it has none of these.
        AND (NOT $8 OR r.state IN ('due', 'running'))
    ORDER BY r.run_id DESC
    LIMIT $7
), picked AS MATERIALIZED (
    SELECT s.run_id FROM scanned s
    WHERE (cardinality($2::text[]) = 0 OR s.state = ANY ($2)) AND ($3::text IS NULL OR s.running_at = $3)
        AND ($4::text IS NULL OR s.kind = $4)
    ORDER BY s.run_id DESC
    LIMIT $6
)
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(i) ORDER BY i.run_id DESC), '[]') FROM picked p CROSS JOIN LATERAL (
        SELECT r.run_id, r.job_id, r.kind, r.instance, r.instances, r.state, r.reason, r.running_at, r.attempt, r.fence, r.retries,
        r.takeovers, r.due_at, r.claimed_at, r.started_at, r.finished_at, r.exit_code, r.signal, r.count, r.key, r.firing,
        r.cancel_requested
        FROM farmhand.run r WHERE r.run_id = p.run_id LIMIT 1) i) AS items,
    (SELECT count(*) FROM scanned) AS scanned, (SELECT min(s.run_id) FROM scanned s) AS floor
