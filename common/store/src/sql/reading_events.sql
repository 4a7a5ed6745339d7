-- At most $10 are looked at, from before $8 down; of those the first $9 that the filter wants.
WITH scanned AS MATERIALIZED (
    SELECT e.event_id, e.at, e.kind, e.severity, e.job_id, e.address, e.detail->>'expired' AS expired
    FROM farmhand.event e
    WHERE ($2::bigint IS NULL OR e.run_id = $2) AND ($8::bigint IS NULL OR e.event_id < $8)
        AND ($6::timestamptz IS NULL OR e.at >= $6) AND ($7::timestamptz IS NULL OR e.at < $7)
    ORDER BY e.event_id DESC
    LIMIT $10
), picked AS MATERIALIZED (
    SELECT s.event_id, s.at FROM scanned s
    WHERE ($1::text IS NULL OR s.job_id = $1) AND ($3::text IS NULL OR s.address = $3 OR s.expired = $3)
        AND (cardinality($4::text[]) = 0 OR s.kind = ANY ($4)) AND s.severity = ANY ($5::text[])
    ORDER BY s.event_id DESC
    LIMIT $9
)
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(i) ORDER BY i.event_id DESC), '[]') FROM picked p CROSS JOIN LATERAL (
        SELECT e.event_id, e.at, e.kind, e.severity, e.job_id, e.run_id, e.attempt, e.address, e.session, e.fence,
            e.detail
        FROM farmhand.event e WHERE e.event_id = p.event_id AND e.at = p.at LIMIT 1) i) AS items,
    (SELECT count(*) FROM scanned) AS scanned, (SELECT min(s.event_id) FROM scanned s) AS floor
