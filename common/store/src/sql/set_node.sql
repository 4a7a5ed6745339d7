WITH before AS MATERIALIZED (
    SELECT n.address, coalesce($2, n.cordoned) AS cordon, coalesce($3, n.draining) AS drain
    FROM farmhand.node n WHERE n.address = $1 FOR NO KEY UPDATE
), changed AS (
    UPDATE farmhand.node n
    SET cordoned = b.cordon, draining = b.drain,
        drain_until = CASE WHEN $3 IS NULL THEN n.drain_until
            WHEN $3 THEN clock_timestamp() + $4 * interval '1 millisecond' END,
        withheld_by = CASE WHEN b.cordon OR b.drain THEN $5 END,
        withheld_at = CASE WHEN b.cordon OR b.drain THEN statement_timestamp() END
    FROM before b WHERE n.address = b.address
    RETURNING n.address, n.drain_until
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, address, detail)
    SELECT statement_timestamp(), CASE WHEN $3 THEN 'node_drain' WHEN $2 THEN 'node_cordon' ELSE 'node_resume' END,
        'info', c.address, jsonb_strip_nulls(jsonb_build_object('by', $5, 'until', c.drain_until))
    FROM changed c
)
SELECT c.address, pg_notify('farmhand', json_build_object('node', c.address)::text)::text AS note FROM changed c
