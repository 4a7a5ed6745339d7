WITH gone AS (
    UPDATE farmhand.api_token SET revoked_at = statement_timestamp()
    WHERE name = $1 AND revoked_at IS NULL
    RETURNING *
), ended AS (
    DELETE FROM farmhand.web_session s USING gone g WHERE s.token_id = g.token_id
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, detail)
    SELECT statement_timestamp(), 'token_revoked', 'info', jsonb_build_object('by', $2, 'token', g.name,
        'role', g.role)
    FROM gone g
)
SELECT token_id, name, role, jobs, created_at, created_by, expires_at, last_used_at, revoked_at FROM gone
