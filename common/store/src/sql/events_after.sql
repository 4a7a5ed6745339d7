SELECT event_id, at, kind, severity, job_id, run_id, attempt, address, session, fence, detail
FROM farmhand.event
WHERE event_id > $8 AND NOT event_id = ANY ($10) AND ($1::text IS NULL OR job_id = $1) AND ($2::bigint IS NULL OR run_id = $2)
    AND ($3::text IS NULL OR address = $3 OR detail->>'expired' = $3) AND (cardinality($4::text[]) = 0 OR kind = ANY ($4))
    AND severity = ANY ($5::text[])
    AND ($6::timestamptz IS NULL OR at >= $6) AND ($7::timestamptz IS NULL OR at < $7)
ORDER BY event_id ASC
LIMIT $9
