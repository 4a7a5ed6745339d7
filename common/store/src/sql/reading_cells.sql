SELECT r.run_id, coalesce(r.firing, r.run_id) AS firing, r.instance, r.instances, r.node, r.state, r.reason,
    r.running_at, r.attempt, r.due_at, r.started_at, r.finished_at,
    farmhand.ran_ms(r.ran_ms, r.started_at, CASE r.state WHEN 'running' THEN clock_timestamp() END) AS duration_ms, r.count
FROM farmhand.run r
WHERE r.job_id = $1
ORDER BY r.run_id DESC
LIMIT $2
