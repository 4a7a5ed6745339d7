-- The newest $7 of a job, or of all, before $5; of those the first $6 that the filter wants.
WITH scanned AS MATERIALIZED (
    (SELECT r.run_id, r.job_id, r.rev, r.state, r.running_at, r.kind, r.params FROM farmhand.run_live r
    WHERE ($1::text IS NULL OR r.job_id = $1) AND ($12::text IS NULL OR r.key = $12)
        AND r.run_id < coalesce($5::bigint, 9223372036854775807)
    ORDER BY r.run_id DESC LIMIT $7)
    UNION ALL
    -- Of what has ended one of the three, each in the order of an index of its own; none where only live states ($8) are asked for.
    (SELECT r.run_id, r.job_id, r.rev, r.state, r.running_at, r.kind, r.params FROM farmhand.run_history r
    WHERE NOT $8 AND $1::text IS NULL AND r.run_id < coalesce($5::bigint, 9223372036854775807)
    ORDER BY r.run_id DESC LIMIT $7)
    UNION ALL
    (SELECT r.run_id, r.job_id, r.rev, r.state, r.running_at, r.kind, r.params FROM farmhand.run_history r
    WHERE NOT $8 AND $12::text IS NULL AND r.job_id >= $1 AND r.job_id <= $1 AND r.run_id < coalesce($5::bigint, 9223372036854775807)
    ORDER BY r.job_id, r.run_id DESC LIMIT $7)
    UNION ALL
    (SELECT r.run_id, r.job_id, r.rev, r.state, r.running_at, r.kind, r.params FROM farmhand.run_history r
    WHERE NOT $8 AND r.job_id = $1 AND md5(r.key) = md5($12) AND r.key = $12 AND r.run_id < coalesce($5::bigint, 9223372036854775807)
    ORDER BY r.run_id + 0 DESC LIMIT $7)
    ORDER BY run_id DESC LIMIT $7
), defaults AS MATERIALIZED (
    -- What a parameter is that a run was not given: of each definition once.
    SELECT d.job_id, d.rev, farmhand.run_params(d.job_id, d.rev, '{}')->>$10 AS value
    FROM (SELECT DISTINCT s.job_id, s.rev FROM scanned s WHERE $10::text IS NOT NULL) d
), picked AS MATERIALIZED (
    SELECT s.run_id FROM scanned s
    LEFT JOIN defaults d ON d.job_id = s.job_id AND d.rev = s.rev
    WHERE (cardinality($2::text[]) = 0 OR s.state = ANY ($2)) AND ($3::text IS NULL OR s.running_at = $3)
        AND ($4::text IS NULL OR s.kind = $4)
        AND ($9::jsonb IS NULL OR EXISTS (SELECT FROM farmhand.job j WHERE j.job_id = s.job_id AND $9 <@ ANY (j.placement)))
        AND ($10::text IS NULL OR coalesce(s.params->>$10, d.value) = $11)
    ORDER BY s.run_id DESC
    LIMIT $6
)
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(i) ORDER BY i.run_id DESC), '[]') FROM picked p CROSS JOIN LATERAL (
        SELECT r.run_id, r.job_id, r.kind, r.instance, r.instances, r.state, r.reason, r.running_at, r.attempt, r.fence, r.retries,
        r.takeovers, r.due_at, r.claimed_at, r.started_at, r.finished_at, r.exit_code, r.signal, r.count, r.key, r.firing,
        r.cancel_requested, r.ran_ms
        FROM farmhand.run r WHERE r.run_id = p.run_id LIMIT 1) i) AS items,
    (SELECT count(*) FROM scanned) AS scanned, (SELECT min(s.run_id) FROM scanned s) AS floor
