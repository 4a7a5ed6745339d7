SELECT j.job_id, j.rev, j.next_run
FROM farmhand.job j
WHERE j.fires AND j.next_run <= statement_timestamp()
ORDER BY j.next_run, j.job_id
LIMIT $1
