SELECT r.kind, coalesce(t.name, r.name) AS name, r.jobs, r.set_by, r.set_at
FROM farmhand.restriction r
LEFT JOIN farmhand.api_token t ON r.kind = 'token' AND t.token_id::text = r.name
WHERE r.kind = 'login' OR (t.revoked_at IS NULL AND t.expires_at > statement_timestamp())
ORDER BY r.kind, 2 LIMIT 1000
