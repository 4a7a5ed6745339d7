-- How many lines end in each row of an attempt's output after row $3. "escape" leaves newlines as they are and makes
-- ASCII of everything, so that no byte is an error.
SELECT l.seq, length(l.chunk)::bigint AS bytes,
    (octet_length(t.text) - octet_length(replace(t.text, E'\n', '')))::bigint AS lines
FROM (
    SELECT DISTINCT ON (o.seq) o.seq, o.chunk
    FROM farmhand.run_log o
    WHERE o.run_id = $1 AND o.attempt = $2 AND o.seq > $3
    ORDER BY o.seq
    LIMIT $4) l
CROSS JOIN LATERAL (SELECT encode(l.chunk, 'escape') AS text) t
ORDER BY l.seq
