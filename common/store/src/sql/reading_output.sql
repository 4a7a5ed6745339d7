-- Rows of output of the runs $1, in their order: of the attempt $2 or of all, of the first run those after ($3, $4), at
-- most $5. A run's rows are found by key, and no row is decompressed but those that are sent.
SELECT r.run_id, l.attempt, l.seq, l.chunk
FROM unnest($1::bigint[]) WITH ORDINALITY AS r(run_id, n)
CROSS JOIN LATERAL (
    SELECT o.attempt, o.seq, o.chunk
    FROM farmhand.run_log o
    WHERE o.run_id = r.run_id AND ($2::integer IS NULL OR o.attempt = $2)
        AND (o.attempt, o.seq) > (CASE r.n WHEN 1 THEN $3::integer ELSE 0 END, CASE r.n WHEN 1 THEN $4::bigint ELSE -1 END)
    ORDER BY o.attempt, o.seq
    LIMIT $5) l
ORDER BY r.n, l.attempt, l.seq
LIMIT $5
