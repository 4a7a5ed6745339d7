-- After backfill_lock, so that this snapshot has what an earlier backfill made. One run at a time and node, the
-- oldest first, whatever the job's own overlap rule is.
WITH j AS MATERIALIZED (
    SELECT * FROM farmhand.job WHERE job_id = $1
), wanted AS MATERIALIZED (
    SELECT d.due_at, CASE WHEN j.instances > 1 OR j.each_node THEN nextval('farmhand.run_id_seq') END AS firing
    FROM j, unnest($2::timestamptz[]) AS d(due_at)
    WHERE d.due_at NOT IN (SELECT r.due_at FROM farmhand.run_live r
            WHERE r.job_id = $1 AND r.kind IN ('scheduled', 'backfill'))
        AND d.due_at NOT IN (SELECT r.due_at FROM farmhand.run_history r
            WHERE r.job_id = $1 AND r.kind IN ('scheduled', 'backfill') AND (r.state <> 'skipped' OR r.reason = 'observed'))
        -- A week that was dropped since the plan was made: whether its instants ran is unknown.
        AND (d.due_at >= (SELECT min(h.until) - interval '7 days' FROM farmhand.history_partition h
                WHERE h.parent = 'run_history')
            OR d.due_at < (SELECT min(v.applied_at) FROM farmhand.job_revision v WHERE v.job_id = $1))
), place AS MATERIALIZED (
    SELECT n.address AS node, EXISTS (SELECT FROM farmhand.run_live r WHERE r.job_id = $1
        AND farmhand.overlaps(r) AND (n.address IS NULL OR r.node = n.address)) AS live
    FROM j
    LEFT JOIN farmhand.node n ON j.each_node AND n.state = 'ready'
        AND (j.placement IS NULL OR n.labels @> ANY (j.placement))
    WHERE NOT j.each_node OR n.address IS NOT NULL
), made AS (
    INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, gate,
        priority, placement, on_lost, overlap, hard_ms, submitted_by,
        firing)
    SELECT CASE WHEN w.firing IS NOT NULL AND row_number() OVER (PARTITION BY w.firing ORDER BY p.node, i) = 1
            THEN w.firing ELSE nextval('farmhand.run_id_seq') END,
        j.job_id, j.rev, 'backfill', i, j.instances, p.node, w.due_at, statement_timestamp(),
        CASE WHEN p.live OR w.due_at > (SELECT min(due_at) FROM wanted) THEN 'overlap' END,
        j.priority, j.placement, j.on_lost, 'queue', j.hard_ms, $3,
        w.firing
    FROM j CROSS JOIN place p CROSS JOIN wanted w CROSS JOIN LATERAL generate_series(0, j.instances - 1) i
    ORDER BY w.due_at, p.node, i
    RETURNING run_id, due_at
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
    SELECT statement_timestamp(), 'backfill', 'info', $1, jsonb_build_object('by', $3::text, 'runs', count(*),
        'from', min(m.due_at), 'to', max(m.due_at))
    FROM made m HAVING count(*) > 0
)
SELECT (SELECT count(*) FROM place) > 0 AS placed,
    coalesce((SELECT array_agg(m.run_id ORDER BY m.run_id) FROM made m), '{}') AS run_ids,
    (SELECT pg_notify('farmhand', json_build_object('due', min(m.run_id), 'job', $1::text, 'runs', count(*))::text)::text
        FROM made m HAVING count(*) > 0) AS note
