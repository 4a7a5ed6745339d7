SELECT attempt, count(DISTINCT seq) AS chunks, sum(length(chunk))::bigint AS bytes, min(seq) AS first_seq,
    max(seq) AS last_seq
FROM farmhand.run_log
-- Of as many attempts as are listed.
WHERE run_id = $1 AND attempt > coalesce((SELECT r.attempt FROM farmhand.run r WHERE r.run_id = $1 LIMIT 1), 0) - 1000
GROUP BY attempt ORDER BY attempt
