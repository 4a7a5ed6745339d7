SELECT rev, spec, source, applied_by, applied_at FROM farmhand.job_revision
WHERE job_id = $1 ORDER BY rev DESC LIMIT $2
