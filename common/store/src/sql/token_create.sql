WITH made AS (
    INSERT INTO farmhand.api_token (name, hash, role, jobs, created_by, expires_at)
    VALUES ($1, $2, $3, $4, $5, statement_timestamp() + $6 * interval '1 second')
    ON CONFLICT DO NOTHING
    RETURNING *
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, detail)
    SELECT statement_timestamp(), 'token_created', 'info', jsonb_build_object('by', $5, 'token', m.name,
        'role', m.role, 'jobs', m.jobs, 'expires_at', m.expires_at)
    FROM made m
)
SELECT token_id, name, role, jobs, created_at, created_by, expires_at, last_used_at, revoked_at FROM made
