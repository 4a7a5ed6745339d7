SELECT token_id, name, role, created_at, created_by, expires_at, last_used_at, revoked_at
FROM farmhand.api_token
WHERE $1 OR (revoked_at IS NULL AND expires_at > statement_timestamp())
ORDER BY name, token_id DESC LIMIT 1000
