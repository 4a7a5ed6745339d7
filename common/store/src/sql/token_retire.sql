-- An expired token's name is free again.
UPDATE farmhand.api_token SET revoked_at = statement_timestamp()
WHERE name = $1 AND revoked_at IS NULL AND expires_at <= statement_timestamp()
