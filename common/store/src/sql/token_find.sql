-- The last use is written once a minute: a token that is used all the time costs next to nothing.
WITH found AS MATERIALIZED (
    SELECT t.*, CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked'
        WHEN t.expires_at <= statement_timestamp() THEN 'expired' ELSE 'good' END AS standing
    FROM farmhand.api_token t WHERE t.hash = $1
), used AS (
    UPDATE farmhand.api_token t SET last_used_at = statement_timestamp()
    FROM found f
    WHERE t.token_id = f.token_id AND f.standing = 'good'
        AND coalesce(t.last_used_at < statement_timestamp() - interval '1 minute', true)
)
SELECT token_id, name, role, encode(hash, 'hex') AS hash, standing FROM found
