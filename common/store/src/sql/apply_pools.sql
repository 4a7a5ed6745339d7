-- The file's size counts when the file's size changes: one set by hand outlives the same file applied again.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1) AS g(name text, size integer, source text)
), put AS (
    INSERT INTO farmhand.pool AS p (name, size, file_size, source, changed_by, changed_at)
    SELECT g.name, g.size, g.size, g.source, $2, statement_timestamp() FROM given g ORDER BY g.name
    ON CONFLICT (name) DO UPDATE SET
        size = CASE WHEN p.file_size = excluded.file_size THEN p.size ELSE excluded.size END,
        file_size = excluded.file_size, source = excluded.source,
        changed_by = excluded.changed_by, changed_at = excluded.changed_at
), gone AS (
    DELETE FROM farmhand.pool p WHERE p.name = ANY ($3)
)
SELECT 1 AS one
