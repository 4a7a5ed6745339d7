-- [$1, $2) in $6 parts, at most $7 ends of each.
SELECT b.node, w.at AS "from", w.at + w.long AS "to", b.ended, b.bad, b.looked >= $7 AS sampled
FROM (SELECT $1::timestamptz + n * (($2::timestamptz - $1) / $6::float8) AS at, ($2 - $1) / $6::float8 AS long
    FROM generate_series(0, $6::bigint - 1) n) w
CROSS JOIN LATERAL (
    SELECT CASE WHEN e.node = ANY ($5::text[]) THEN e.node END AS node, count(*) AS ended,
        count(*) FILTER (WHERE e.state <> 'succeeded') AS bad, sum(count(*)) OVER ()::bigint AS looked
    FROM (SELECT r.running_at AS node, r.state FROM farmhand.run_history r
        WHERE r.finished_at >= w.at AND r.finished_at < w.at + w.long
            AND (cardinality($3::text[]) = 0 OR r.running_at = ANY ($3)) AND ($4::text IS NULL OR r.job_id = $4)
            AND r.running_at IS NOT NULL AND r.state <> 'skipped'
        ORDER BY r.finished_at LIMIT $7) e
    GROUP BY 1
) b
ORDER BY w.at, b.node
