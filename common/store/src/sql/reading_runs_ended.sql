-- Ends in [$5, $6) before the place ($7, $8), the latest first: at most $10 are looked at.
WITH scanned AS MATERIALIZED (
    SELECT r.run_id, r.job_id, r.rev, r.finished_at, r.state, r.running_at, r.kind, r.params
    FROM farmhand.run_history r
    WHERE ($1::text IS NULL OR r.job_id = $1)
        AND ($11::text IS NULL OR (md5(r.key) = md5($11) AND r.key = $11))
        AND ($5::timestamptz IS NULL OR r.finished_at >= $5) AND ($6::timestamptz IS NULL OR r.finished_at < $6)
        AND ($7::timestamptz IS NULL OR r.finished_at <= $7)
        AND ($7::timestamptz IS NULL OR (r.finished_at, r.run_id) < ($7, $8::bigint))
    -- Those that ended at the same instant stay together, so that the order of the index is enough.
    ORDER BY r.finished_at DESC
    FETCH FIRST ($10) ROWS WITH TIES
), defaults AS MATERIALIZED (
    -- What a parameter is that a run was not given: of each definition once.
    SELECT d.job_id, d.rev, farmhand.run_params(d.job_id, d.rev, '{}')->>$13 AS value
    FROM (SELECT DISTINCT s.job_id, s.rev FROM scanned s WHERE $13::text IS NOT NULL) d
), picked AS MATERIALIZED (
    SELECT s.run_id, s.finished_at FROM scanned s
    LEFT JOIN defaults d ON d.job_id = s.job_id AND d.rev = s.rev
    WHERE (cardinality($2::text[]) = 0 OR s.state = ANY ($2)) AND ($3::text IS NULL OR s.running_at = $3)
        AND ($4::text IS NULL OR s.kind = $4)
        AND ($12::jsonb IS NULL OR EXISTS (SELECT FROM farmhand.job j WHERE j.job_id = s.job_id AND $12 <@ ANY (j.placement)))
        AND ($13::text IS NULL OR coalesce(s.params->>$13, d.value) = $14)
    ORDER BY s.finished_at DESC, s.run_id DESC
    LIMIT $9
), last AS (
    SELECT s.run_id, s.finished_at FROM scanned s ORDER BY s.finished_at, s.run_id LIMIT 1
)
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(i) ORDER BY i.finished_at DESC, i.run_id DESC), '[]')
        FROM picked p CROSS JOIN LATERAL (
        SELECT r.run_id, r.job_id, r.kind, r.instance, r.instances, r.state, r.reason, r.running_at, r.attempt, r.fence, r.retries,
        r.takeovers, r.due_at, r.claimed_at, r.started_at, r.finished_at, r.exit_code, r.signal, r.count, r.key, r.firing,
        r.cancel_requested, r.ran_ms
        FROM farmhand.run r WHERE r.run_id = p.run_id LIMIT 1) i) AS items,
    (SELECT count(*) FROM scanned) AS scanned, (SELECT l.run_id FROM last l) AS floor,
    (SELECT l.finished_at FROM last l) AS floor_at
