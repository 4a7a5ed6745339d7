SELECT p.id FROM farmhand.row_result p
WHERE p.job_id = $1 AND p.ready_at <= statement_timestamp() ORDER BY p.id LIMIT $2
