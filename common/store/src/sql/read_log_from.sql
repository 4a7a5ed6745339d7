-- The row that begins at byte $3 or is the last one before it.
SELECT seq, stream, at, chunk
FROM farmhand.run_log
WHERE run_id = $1 AND attempt = $2 AND seq <= $3
ORDER BY seq DESC
LIMIT 1
