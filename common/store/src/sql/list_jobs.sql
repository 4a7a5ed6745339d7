SELECT j.job_id, j.rev, j.enabled, j.paused, j.paused_by, j.paused_at, j.pause_reason, j.scheduled, j.next_run,
    j.decided_until, j.source, j.applied_by, j.applied_at, v.spec,
    (SELECT r.running_at FROM farmhand.run_live r WHERE r.job_id = j.job_id AND r.state = 'running'
        ORDER BY r.claimed_at DESC LIMIT 1) AS running_at,
    j.enabled AND j.scheduled AND NOT j.paused
        AND coalesce(j.next_run < statement_timestamp() - interval '10 seconds', false) AS overdue,
    EXISTS (SELECT FROM (SELECT r.state, r.gate, r.ready_at FROM farmhand.run_live r
            WHERE r.job_id = j.job_id LIMIT 20) r
            WHERE r.state = 'due' AND r.gate IS DISTINCT FROM 'overlap'
                AND r.ready_at < statement_timestamp()
                    - CASE WHEN r.gate IS NULL THEN interval '1 minute' ELSE interval '5 minutes' END) AS waiting,
    s.last_run_started, s.last_finished, s.last_state, s.last_success,
    coalesce(s.consecutive_failures, 0) AS consecutive_failures
FROM farmhand.job j
JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
LEFT JOIN farmhand.job_stat s ON s.job_id = j.job_id
WHERE NOT j.deleted AND ($1::text IS NULL OR j.job_id = $1) AND ($2::text IS NULL OR j.job_id > $2)
ORDER BY j.job_id
LIMIT $3
