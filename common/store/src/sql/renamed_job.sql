-- A job that has just been renamed, with what its schedule would do next; none when that does nothing.
SELECT j.rev, j.next_run, j.decided_until, v.spec, statement_timestamp() AS now
FROM farmhand.job j
JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
WHERE j.job_id = $1 AND NOT j.deleted AND j.enabled AND j.scheduled AND NOT j.paused AND j.next_run IS NOT NULL
