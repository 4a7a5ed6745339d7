SELECT seq + length(chunk) AS log_end
FROM farmhand.run_log
WHERE run_id = $1 AND attempt = $2
ORDER BY seq DESC
LIMIT 1
