-- The state first, in the same snapshot as the end of the output.
SELECT r.state, r.attempt, coalesce(r.output_dropped, 0) AS dropped,
    coalesce((SELECT l.seq + length(l.chunk) FROM farmhand.run_log l
        WHERE l.run_id = $1 AND l.attempt = coalesce($2, r.attempt) ORDER BY l.seq DESC LIMIT 1), 0) AS "end"
FROM farmhand.run r
WHERE r.run_id = $1
