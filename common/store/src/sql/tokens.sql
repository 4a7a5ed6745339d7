SELECT t.token_id, t.name, t.role, t.jobs, t.created_at, t.created_by, t.expires_at, t.last_used_at, t.revoked_at
FROM farmhand.api_token t
WHERE $1 OR (t.revoked_at IS NULL AND t.expires_at > statement_timestamp())
ORDER BY t.name, t.token_id DESC LIMIT 1000
