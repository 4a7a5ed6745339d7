WITH held AS (
    SELECT r.running_at AS address, r.session, jsonb_agg(jsonb_build_object('run_id', r.run_id, 'job_id', r.job_id,
        'attempt', r.attempt, 'fence', r.fence, 'claimed_at', r.claimed_at,
        'cancel_requested', r.cancel_requested) ORDER BY r.run_id) AS runs
    FROM farmhand.run_live r WHERE r.state = 'running' GROUP BY r.running_at, r.session
)
SELECT n.address, coalesce(h.session, n.session) AS session,
    n.open AND coalesce(h.session, n.session) = n.session AS open,
    CASE WHEN coalesce(h.session, n.session) = n.session THEN farmhand.shown_state(n) ELSE 'closed' END AS state,
    n.lease_until, coalesce(h.runs, '[]') AS runs
FROM farmhand.node n LEFT JOIN held h ON h.address = n.address
WHERE n.open OR h.session IS NOT NULL
ORDER BY n.address, 2
