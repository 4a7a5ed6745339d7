-- Instants of a job that were recorded without a run, the newest first. A record is made when its instants are due, or later.
SELECT r.run_id, r.node, r.reason, r.first_due AS first, r.last_due AS last
FROM farmhand.run_history r
WHERE r.job_id = $1 AND (r.state = 'skipped') IS TRUE AND r.finished_at >= $2 AND r.last_due >= $2 AND r.first_due <= $3
    AND ($4::bigint IS NULL OR r.run_id < $4)
ORDER BY r.run_id DESC
LIMIT $5
