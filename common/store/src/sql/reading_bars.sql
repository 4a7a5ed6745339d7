-- Attempts that lived in [$1, $2), at most $5 of each kind. Those that ended their run are in the history, long ones
-- apart, because they may have ended long after the window; those that did not are in "attempt"; the others live.
SELECT b.* FROM (
    (SELECT r.run_id, r.job_id, r.attempt, r.running_at AS node, r.session, r.fence, r.claimed_at, r.started_at,
        r.finished_at AS ended_at, r.state AS "end", r.reason, r.exit_code, r.signal,
        farmhand.ran_ms(r.ran_ms, r.started_at, r.finished_at) AS ran_ms
    FROM farmhand.run_history r
    WHERE r.finished_at >= $1 AND r.finished_at < $2::timestamptz + interval '10 minutes' AND r.claimed_at < $2
        AND r.finished_at - r.claimed_at <= interval '10 minutes'
        AND (cardinality($3::text[]) = 0 OR r.running_at = ANY ($3)) AND ($4::text IS NULL OR r.job_id = $4)
        AND r.running_at IS NOT NULL AND r.state <> 'skipped'
    ORDER BY r.finished_at LIMIT $5)
    UNION ALL
    (SELECT r.run_id, r.job_id, r.attempt, r.running_at, r.session, r.fence, r.claimed_at, r.started_at,
        r.finished_at, r.state, r.reason, r.exit_code, r.signal,
        farmhand.ran_ms(r.ran_ms, r.started_at, r.finished_at) AS ran_ms
    FROM farmhand.run_history r
    WHERE r.finished_at >= $1 AND r.claimed_at < $2 AND r.finished_at - r.claimed_at > interval '10 minutes'
        AND (cardinality($3::text[]) = 0 OR r.running_at = ANY ($3)) AND ($4::text IS NULL OR r.job_id = $4)
        AND r.running_at IS NOT NULL AND r.state <> 'skipped'
    ORDER BY r.finished_at LIMIT $5)
    UNION ALL
    (SELECT a.run_id, a.job_id, a.attempt, a.address, a.session, a.fence, a.claimed_at, a.started_at,
        a.ended_at, a.outcome, a.reason, a.exit_code, a.signal,
        farmhand.ran_ms(a.ran_ms, a.started_at, a.ended_at)
    FROM farmhand.attempt a
    WHERE a.outcome <> 'lost' AND a.ended_at >= $1 AND a.claimed_at < $2
        AND (cardinality($3::text[]) = 0 OR a.address = ANY ($3)) AND ($4::text IS NULL OR a.job_id = $4)
    ORDER BY a.ended_at LIMIT $5)
    UNION ALL
    -- Those that were lost apart, the last ones: thousands of retries would hide them.
    (SELECT a.run_id, a.job_id, a.attempt, a.address, a.session, a.fence, a.claimed_at, a.started_at,
        a.ended_at, a.outcome, a.reason, a.exit_code, a.signal,
        farmhand.ran_ms(a.ran_ms, a.started_at, a.ended_at)
    FROM farmhand.attempt a
    WHERE a.outcome = 'lost' AND a.ended_at >= $1 AND a.claimed_at < $2
        AND (cardinality($3::text[]) = 0 OR a.address = ANY ($3)) AND ($4::text IS NULL OR a.job_id = $4)
    ORDER BY a.ended_at DESC LIMIT $5)
    UNION ALL
    (SELECT r.run_id, r.job_id, r.attempt, r.running_at, r.session, r.fence, r.claimed_at, r.started_at,
        NULL, 'running', r.reason, NULL, NULL, NULL
    FROM farmhand.run_live r
    WHERE r.state = 'running' AND r.claimed_at < $2
        AND (cardinality($3::text[]) = 0 OR r.running_at = ANY ($3)) AND ($4::text IS NULL OR r.job_id = $4)
    LIMIT $5)
) b
ORDER BY b."end" = 'lost' DESC
LIMIT $5
