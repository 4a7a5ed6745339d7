SELECT j.job_id, j.rev, j.seq, v.spec, j.enabled, j.paused, j.deleted, j.scheduled, j.next_run, j.decided_until
FROM farmhand.job j
JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
WHERE j.seq > $1
ORDER BY j.seq, j.job_id
