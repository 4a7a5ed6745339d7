-- The newest runs of a job, or the newest before run $2.
SELECT r.run_id
FROM farmhand.run r
WHERE r.job_id = $1 AND ($2::bigint IS NULL OR r.run_id < $2)
ORDER BY r.run_id DESC
LIMIT $3
