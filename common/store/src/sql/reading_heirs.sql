-- Attempts $2 of runs $1, pair by pair, as far as they lived in [$3, $4) and on nodes $5 (all, when there is none).
SELECT b.*
FROM unnest($1::bigint[], $2::integer[]) AS w (run_id, attempt)
CROSS JOIN LATERAL (
    SELECT r.run_id, r.job_id, r.attempt, r.running_at AS node, r.session, r.fence, r.claimed_at, r.started_at,
        r.finished_at AS ended_at, r.state AS "end", r.reason, r.exit_code, r.signal,
        farmhand.ran_ms(r.ran_ms, r.started_at, r.finished_at) AS ran_ms
    FROM farmhand.run_history r
    WHERE r.run_id = w.run_id AND r.attempt = w.attempt AND r.finished_at >= $3 AND r.claimed_at < $4
        AND r.running_at IS NOT NULL AND r.state <> 'skipped'
    UNION ALL
    SELECT a.run_id, a.job_id, a.attempt, a.address, a.session, a.fence, a.claimed_at, a.started_at,
        a.ended_at, a.outcome, a.reason, a.exit_code, a.signal,
        farmhand.ran_ms(a.ran_ms, a.started_at, a.ended_at)
    FROM farmhand.attempt a
    WHERE a.run_id = w.run_id AND a.attempt = w.attempt AND a.ended_at >= $3 AND a.claimed_at < $4
    UNION ALL
    SELECT r.run_id, r.job_id, r.attempt, r.running_at, r.session, r.fence, r.claimed_at, r.started_at,
        NULL, 'running', r.reason, NULL, NULL, NULL
    FROM farmhand.run_live r
    WHERE r.run_id = w.run_id AND r.attempt = w.attempt AND r.state = 'running' AND r.claimed_at < $4
) b
WHERE cardinality($5::text[]) = 0 OR b.node = ANY ($5)
