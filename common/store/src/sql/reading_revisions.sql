SELECT v.rev, v.source, v.applied_by, v.applied_at, v.spec FROM farmhand.job_revision v
WHERE v.job_id = $1 AND ($2::bigint IS NULL OR v.rev < $2)
ORDER BY v.rev DESC
LIMIT $3
