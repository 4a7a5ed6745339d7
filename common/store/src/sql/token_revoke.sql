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
SELECT g.token_id, g.name, g.role, g.created_at, g.created_by, g.expires_at, g.last_used_at, g.revoked_at, r.jobs
FROM gone g LEFT JOIN farmhand.restriction r ON r.kind = 'token' AND r.name = g.token_id::text
