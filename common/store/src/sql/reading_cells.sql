SELECT r.run_id, coalesce(r.firing, r.run_id) AS firing, r.instance, r.instances, r.node, r.state, r.reason,
    r.running_at, r.attempt, r.due_at, r.started_at, r.finished_at,
    farmhand.ran_ms(r.ran_ms, r.started_at, CASE r.state WHEN 'running' THEN clock_timestamp() END) AS duration_ms, r.count
FROM (
    -- The history's CHECK says that it has none of these.
    (SELECT l.run_id, l.firing, l.instance, l.instances, l.node, l.state, l.reason, l.running_at, l.attempt, l.due_at, l.started_at,
        l.finished_at, l.ran_ms, l.count
    FROM farmhand.run l WHERE l.job_id = $1 AND l.state IN ('due', 'running')
    ORDER BY l.run_id + 0 DESC LIMIT $2)
    UNION ALL
    (SELECT h.run_id, h.firing, h.instance, h.instances, h.node, h.state, h.reason, h.running_at, h.attempt, h.due_at, h.started_at,
        h.finished_at, farmhand.ran_ms(h.ran_ms, h.started_at, h.finished_at), h.count
    FROM farmhand.run_history h WHERE h.job_id >= $1 AND h.job_id <= $1
    ORDER BY h.job_id, h.run_id DESC LIMIT $2)) r
ORDER BY r.run_id DESC
LIMIT $2
