SELECT r.run_id, r.job_id, r.kind, r.node, r.due_at, r.ready_at, r.gate, r.reason, r.priority
FROM farmhand.run_live r WHERE r.state = 'due'
ORDER BY r.gate IS NOT NULL, r.ready_at > statement_timestamp(), r.priority DESC, r.ready_at, r.run_id
LIMIT $1
