-- Per job, and per node for each-node jobs: the oldest waiting firing, all its instances together.
WITH waiting AS (
    SELECT DISTINCT ON (r.job_id, r.node) r.job_id, r.node, r.due_at, coalesce(r.firing, r.run_id) AS firing
    FROM farmhand.run_live r
    WHERE r.gate = 'overlap' AND r.job_id = ANY ($1)
    ORDER BY r.job_id, r.node, r.due_at, coalesce(r.firing, r.run_id)
), turn AS MATERIALIZED (
    SELECT r.run_id
    FROM waiting w
    JOIN farmhand.run_live r ON r.job_id = w.job_id AND r.node IS NOT DISTINCT FROM w.node
        AND r.due_at = w.due_at AND coalesce(r.firing, r.run_id) = w.firing AND r.gate = 'overlap'
    WHERE NOT EXISTS (SELECT FROM farmhand.run_live b WHERE b.job_id = w.job_id AND b.gate IS DISTINCT FROM 'overlap'
        AND farmhand.is_in_the_way(b, w.node, r.kind, r.overlap))
    ORDER BY r.run_id
    FOR UPDATE OF r
), opened AS (
    -- To the next gate, for those that need a pool, a lock or a rate: a trigger sees to it.
    UPDATE farmhand.run_live r SET gate = NULL FROM turn t WHERE r.run_id = t.run_id
    RETURNING r.run_id, r.job_id
)
SELECT o.run_id, CASE WHEN row_number() OVER () = 1 THEN pg_notify('farmhand',
    json_build_object('due', o.run_id, 'job', o.job_id)::text)::text END AS note
FROM opened o
