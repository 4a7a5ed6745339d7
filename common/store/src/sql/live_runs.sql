SELECT r.run_id, r.rev, r.due_at, r.ready_at, r.created_at, r.gate, r.reason, r.running_at, r.claimed_at, r.node
FROM farmhand.run_live r WHERE r.job_id = $1 ORDER BY r.due_at, r.run_id LIMIT 1000
