WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1) AS g(name text, spec jsonb, source text)
), put AS (
    INSERT INTO farmhand.notify_target AS t (name, spec, source, changed_by, changed_at)
    SELECT g.name, g.spec, g.source, $2, statement_timestamp() FROM given g ORDER BY g.name
    ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, source = excluded.source,
        changed_by = excluded.changed_by, changed_at = excluded.changed_at
), gone AS (
    DELETE FROM farmhand.notify_target t WHERE t.name = ANY ($3)
)
SELECT 1 AS one
