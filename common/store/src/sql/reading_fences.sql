SELECT e.run_id, e.attempt, e.at, e.kind, e.address AS node
FROM farmhand.event e
WHERE e.run_id = ANY ($1::bigint[]) AND e.kind IN ('fenced', 'fence_kill')
ORDER BY e.event_id
LIMIT 1000
