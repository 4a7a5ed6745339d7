INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
SELECT c.run_id, c.attempt, c.seq, c.stream, c.at, statement_timestamp(), c.chunk
FROM unnest($1, $2, $3, $4, $5, $6) AS c(run_id, attempt, seq, stream, at, chunk)
-- A value and not NOT EXISTS, which may be answered by reading the whole table.
WHERE (SELECT true FROM farmhand.run_log l
    WHERE l.run_id = c.run_id AND l.attempt = c.attempt AND l.seq = c.seq LIMIT 1) IS NULL
