SELECT r.run_id, r.rev, r.due_at, r.ready_at, r.created_at, r.gate, r.reason, r.running_at, r.claimed_at, r.started_at,
    r.session, r.attempt, r.node, farmhand.overlaps(r) AS overlaps,
    farmhand.goes_to(r.cancel_by IS NOT NULL, v.spec->>'on_lost', true, r.takeovers, true) AS if_lost
FROM farmhand.run_live r
LEFT JOIN farmhand.job_revision v ON v.job_id = r.job_id AND v.rev = r.rev
WHERE r.run_id = ANY (ARRAY(SELECT l.run_id FROM farmhand.run_live l WHERE l.job_id = $1
    ORDER BY l.due_at, l.run_id LIMIT 1000) || $2::bigint)
ORDER BY r.due_at, r.run_id
