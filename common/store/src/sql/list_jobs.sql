SELECT j.job_id, j.rev, j.enabled, j.observe, j.paused, j.paused_by, j.paused_at, j.pause_reason, j.scheduled, j.next_run,
    j.decided_until, j.source, j.applied_by, j.applied_at, v.spec,
    (SELECT r.running_at FROM farmhand.run_live r WHERE r.job_id = j.job_id AND r.state = 'running'
        ORDER BY r.claimed_at DESC LIMIT 1) AS running_at
FROM farmhand.job j
JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
WHERE NOT j.deleted AND ($1::text IS NULL OR j.job_id = $1) AND ($2::text IS NULL OR j.job_id > $2)
ORDER BY j.job_id
LIMIT $3
