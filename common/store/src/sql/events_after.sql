SELECT event_id, at, kind, severity, job_id, run_id, attempt, address, session, fence, detail
FROM farmhand.event
WHERE ($1::text IS NULL OR job_id = $1) AND ($2::bigint IS NULL OR run_id = $2)
    AND ($3::text IS NULL OR address = $3 OR detail->>'expired' = $3) AND ($4::text IS NULL OR kind = $4)
    AND ($5::timestamptz IS NULL OR at >= $5) AND ($8::timestamptz IS NULL OR at < $8) AND event_id > $6
ORDER BY event_id ASC
LIMIT $7
