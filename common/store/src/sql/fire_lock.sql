-- Each job is found by its name, however many are due, or there are: what it must be like is put so that no index helps with it.
SELECT j.job_id, j.next_run AS seen
FROM farmhand.job j
JOIN json_to_recordset($1) AS g(job_id text, rev bigint, seen timestamptz) ON g.job_id = j.job_id
WHERE j.job_id = ANY ($2)
    AND j.next_run IS NOT DISTINCT FROM g.seen AND j.rev = g.rev AND g.seen <= statement_timestamp()
    AND (j.enabled AND j.scheduled AND NOT j.paused AND NOT j.deleted) IS TRUE
    AND (SELECT e.open FROM farmhand.current_epoch e)
ORDER BY j.job_id
FOR UPDATE OF j SKIP LOCKED
