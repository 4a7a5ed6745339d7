-- The position after the last byte stored of an attempt's output, and how many bytes are stored. A chunk may be there twice.
SELECT coalesce(max(l.seq + l.bytes), 0) AS log_end, coalesce(sum(l.bytes), 0)::bigint AS stored
FROM (SELECT DISTINCT o.seq, length(o.chunk)::bigint AS bytes FROM farmhand.run_log o
    WHERE o.run_id = $1 AND o.attempt = $2) l
