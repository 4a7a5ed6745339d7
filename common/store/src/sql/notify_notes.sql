-- A success of one of several runs that were made together counts when it is the last of them and all succeeded.
SELECT n.id, n.job_id, n.what, n.run_id, n.firing, n.attempt, n.outcome, n.reason, n.exit_code, n.signal, n.node,
    n.due_at, n.at, (SELECT r.parent_run FROM farmhand.run r WHERE r.run_id = n.run_id LIMIT 1) AS parent_run,
    CASE WHEN n.firing IS NOT NULL AND n.outcome = 'succeeded' THEN farmhand.firing_end(n.run_id, n.firing)
        ELSE 'success' END IS NOT DISTINCT FROM 'success' AS whole,
    CASE n.what WHEN 'slow' THEN (SELECT jsonb_build_object('p95_ms', s.p95_ms, 'runs', s.runs) FROM farmhand.slow_run s
        WHERE s.run_id = n.run_id) END AS exceeded
FROM farmhand.notify_note n ORDER BY n.id LIMIT $1
