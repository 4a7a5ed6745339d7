-- Those that are over are swept up by those that begin.
WITH over AS (
    DELETE FROM farmhand.web_session s USING (
        SELECT hash FROM farmhand.web_session WHERE expires_at < statement_timestamp() LIMIT 100
    ) o WHERE s.hash = o.hash
), made AS (
    INSERT INTO farmhand.web_session (hash, token_id, remote, expires_at)
    SELECT $1, t.token_id, $3, least(t.expires_at, statement_timestamp() + $4 * interval '1 second')
    FROM farmhand.api_token t
    WHERE t.token_id = $2 AND t.revoked_at IS NULL AND t.expires_at > statement_timestamp()
    RETURNING token_id
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, detail)
    SELECT statement_timestamp(), 'login', 'info', jsonb_build_object('by', t.name || '@' || $3, 'token', t.name,
        'role', t.role)
    FROM made m JOIN farmhand.api_token t USING (token_id)
)
SELECT token_id FROM made
