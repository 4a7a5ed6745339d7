-- A statement whose connection was dropped may commit after its repetition: then a chunk is there twice.
SELECT DISTINCT ON (seq) seq, stream, at, chunk
FROM farmhand.run_log
WHERE run_id = $1 AND attempt = $2 AND seq > $3
ORDER BY seq
LIMIT $4
