WITH found AS MATERIALIZED (
    SELECT t.*, s.hash AS session, CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked'
        WHEN least(t.expires_at, s.expires_at) <= statement_timestamp() THEN 'expired' ELSE 'good' END AS standing
    FROM farmhand.web_session s JOIN farmhand.api_token t USING (token_id) WHERE s.hash = $1
), used AS (
    UPDATE farmhand.api_token t SET last_used_at = statement_timestamp()
    FROM found f
    WHERE t.token_id = f.token_id AND f.standing = 'good'
        AND coalesce(t.last_used_at < statement_timestamp() - interval '1 minute', true)
)
SELECT token_id, name, role, encode(session, 'hex') AS hash, standing FROM found
