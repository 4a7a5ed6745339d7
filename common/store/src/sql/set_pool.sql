-- A larger pool lets its first waiting runs go; a smaller one ends nothing, it only lets nothing more in.
WITH changed AS (
    UPDATE farmhand.pool p SET size = $2, changed_by = $3, changed_at = statement_timestamp()
    WHERE p.name = $1 RETURNING p.name
), next AS (
    SELECT w.run_id, w.job_id FROM farmhand.waiting w
    WHERE w.pool = $1 OR w.node_pool = $1
    ORDER BY w.priority DESC, w.ready_at, w.run_id LIMIT 4
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, detail)
    SELECT statement_timestamp(), 'pool_resized', 'info', jsonb_build_object('pool', c.name, 'size', $2::integer,
        'by', $3::text)
    FROM changed c
)
SELECT c.name,
    (SELECT count(pg_notify('farmhand', json_build_object('due', n.run_id, 'job', n.job_id)::text)::text)
        FROM next n) AS notes
FROM changed c
