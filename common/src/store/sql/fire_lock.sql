SELECT j.job_id
FROM farmhand.job j
JOIN json_to_recordset($1) AS g(job_id text, rev bigint, seen timestamptz) ON g.job_id = j.job_id
WHERE j.next_run = g.seen AND j.rev = g.rev AND j.next_run <= statement_timestamp()
    AND j.enabled AND j.scheduled AND NOT j.paused AND NOT j.deleted
ORDER BY j.job_id
FOR UPDATE OF j SKIP LOCKED
