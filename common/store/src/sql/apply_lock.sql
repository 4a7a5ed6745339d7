SELECT j.job_id, j.rev, v.spec, j.source, j.deleted, j.decided_until,
    CASE WHEN j.fires AND j.next_run <= statement_timestamp() THEN j.next_run END AS overdue,
    CASE WHEN j.paused THEN greatest(j.decided_until, j.paused_at) END AS paused_from, statement_timestamp() AS now
FROM farmhand.job j
JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
WHERE $2 OR j.job_id = ANY ($1)
ORDER BY j.job_id
FOR UPDATE OF j
