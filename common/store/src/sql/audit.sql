SELECT a.audit_id, a.at, a.login, host(a.client) AS client, a.actor, a.action, a.address, a.job_id, a.run_id, a.refused, a.what, a.detail
FROM farmhand.audit a
WHERE ($1::text IS NULL OR a.job_id = $1 OR a.detail->'jobs' ? $1) AND ($2::bigint IS NULL OR a.run_id = $2)
    AND ($3::text IS NULL OR a.address = $3) AND (cardinality($4::text[]) = 0 OR a.action = ANY ($4))
    AND ($5::timestamptz IS NULL OR a.at >= $5) AND ($8::timestamptz IS NULL OR a.at < $8) AND a.audit_id < $6
ORDER BY a.audit_id DESC
LIMIT $7
