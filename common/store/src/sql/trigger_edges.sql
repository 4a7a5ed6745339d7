WITH wanted AS MATERIALIZED (
    SELECT p.parent, j.job_id AS child, p.nth, v.spec->>'trigger_on' AS on_end,
        jsonb_array_length(v.spec->'triggered_by') > 1 AS several
    FROM farmhand.job j
    JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
    CROSS JOIN LATERAL jsonb_array_elements_text(v.spec->'triggered_by') WITH ORDINALITY AS p(parent, nth)
    WHERE j.job_id = ANY ($1) AND NOT j.deleted
), gone AS (
    DELETE FROM farmhand.trigger_edge e WHERE e.child = ANY ($1)
        AND NOT EXISTS (SELECT FROM wanted w WHERE w.child = e.child AND w.parent = e.parent)
)
INSERT INTO farmhand.trigger_edge AS e (parent, child, nth, on_end, several)
SELECT w.parent, w.child, w.nth, w.on_end, w.several FROM wanted w
ON CONFLICT (child, parent) DO UPDATE
    SET nth = excluded.nth, on_end = excluded.on_end, several = excluded.several
RETURNING e.child
