-- Runs of these kinds ended: tells the farm of the first that wait for what is free now.
WITH freed AS (
    SELECT n.pool, n.node_pool, n.locks
    FROM farmhand.need n
    JOIN unnest($1::text[], $2::bigint[]) AS e(job_id, rev) ON e.job_id = n.job_id AND e.rev = n.rev
), next AS (
    SELECT w.run_id, w.job_id, CASE WHEN w.node IS NOT NULL OR w.placement IS NOT NULL
        -- What is kept for the run is idle until a node claims that may run it.
        THEN farmhand.free_node(w.node, w.placement, w.rev || ' ' || w.job_id) END AS node
    FROM farmhand.waiting w
    WHERE EXISTS (SELECT FROM freed f
        WHERE f.pool = w.pool OR f.node_pool = w.node_pool OR f.locks && w.locks)
    ORDER BY w.priority DESC, w.ready_at, w.run_id
    LIMIT 4
)
SELECT n.run_id, pg_notify('farmhand',
    json_strip_nulls(json_build_object('due', n.run_id, 'job', n.job_id, 'node', n.node))::text)::text AS note
FROM next n
