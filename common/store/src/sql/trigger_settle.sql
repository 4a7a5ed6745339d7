-- $1: ends that nothing more comes of. $2: ends that wait for another parent, and for what.
WITH done AS (
    DELETE FROM farmhand.triggering t WHERE t.id = ANY ($1)
)
UPDATE farmhand.triggering t SET waits = g.waits, ready_at = statement_timestamp() + interval '10 seconds'
FROM json_to_recordset($2) AS g(id bigint, waits jsonb)
WHERE t.id = g.id
RETURNING t.id
