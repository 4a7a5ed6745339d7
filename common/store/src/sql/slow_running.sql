-- The oldest $8 of the runs that have run for $7 milliseconds, without those that are known to take longer than usual.
SELECT r.run_id, r.job_id, r.attempt, r.running_at AS node,
    (extract(epoch FROM statement_timestamp() - r.started_at) * 1000)::bigint AS lasted_ms
FROM farmhand.run_live r
WHERE r.state = 'running' AND r.started_at <= statement_timestamp() - $7::bigint * interval '1 millisecond'
    AND NOT EXISTS (SELECT FROM farmhand.slow_run s WHERE s.run_id = r.run_id AND s.attempt = r.attempt)
ORDER BY r.started_at, r.run_id
LIMIT $8
