INSERT INTO farmhand.role_prefix (prefix) VALUES ($1)
ON CONFLICT (one) DO UPDATE SET prefix = excluded.prefix
RETURNING prefix
