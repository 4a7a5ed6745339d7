SELECT f.rev, f.address, f.why, f.runs, f.first_at, f.at
FROM farmhand.refusal f
WHERE f.job_id = $1 AND f.at > statement_timestamp() - interval '1 day'
ORDER BY f.at DESC, f.address
LIMIT 100
