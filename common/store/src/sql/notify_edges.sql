-- The targets in the present definitions of these jobs. A job's episode goes when it has no target, or had none until now: one that is left
-- then was written while the last target was removed.
WITH wanted AS MATERIALIZED (
    SELECT j.job_id, t.target
    FROM farmhand.job j
    JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
    CROSS JOIN LATERAL jsonb_array_elements_text(v.spec->'notify') AS t(target)
    WHERE j.job_id = ANY ($1) AND NOT j.deleted
), gone AS (
    DELETE FROM farmhand.notify_edge e WHERE e.job_id = ANY ($1)
        AND NOT EXISTS (SELECT FROM wanted w WHERE w.job_id = e.job_id AND w.target = e.target)
), calm AS (
    DELETE FROM farmhand.notify_episode p WHERE p.job_id = ANY ($1)
        AND NOT (EXISTS (SELECT FROM wanted w WHERE w.job_id = p.job_id)
            AND EXISTS (SELECT FROM farmhand.notify_edge e WHERE e.job_id = p.job_id))
)
INSERT INTO farmhand.notify_edge (job_id, target)
SELECT w.job_id, w.target FROM wanted w
ON CONFLICT DO NOTHING
RETURNING job_id
