-- Whoever comes second waits here until the first has committed. Old ones are swept up meanwhile.
WITH old AS (
    DELETE FROM farmhand.api_once o USING (
        SELECT token_id, action, key FROM farmhand.api_once WHERE at < statement_timestamp() - interval '7 days' LIMIT 100
        FOR UPDATE SKIP LOCKED
    ) d WHERE (o.token_id, o.action, o.key) = (d.token_id, d.action, d.key)
)
INSERT INTO farmhand.api_once (token_id, action, key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
