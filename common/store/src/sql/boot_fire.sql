-- What is live on the node at its boot is a leftover of the boot before: nothing of it runs any more.
WITH given AS MATERIALIZED (
    SELECT j.*, g.skip AS unwanted, CASE WHEN j.instances > 1 THEN nextval('farmhand.run_id_seq') END AS firing,
        EXISTS (SELECT FROM farmhand.run_live r WHERE r.job_id = j.job_id AND r.node = $2
            AND farmhand.overlaps(r) AND (j.overlap <> 'replace' OR r.state = 'running')) AS live
    FROM json_to_recordset($1) AS g(job_id text, skip text)
    JOIN farmhand.job j ON j.job_id = g.job_id
), decided AS MATERIALIZED (
    SELECT g.*, coalesce(g.unwanted, CASE WHEN g.observe THEN 'observed' WHEN g.overlap = 'skip' AND g.live THEN 'overlap' END) AS skip
    FROM given g
), dropped AS (
    DELETE FROM farmhand.run_live r USING decided d
    WHERE d.skip IS NULL AND d.overlap = 'replace' AND r.job_id = d.job_id AND r.node = $2 AND r.state = 'due'
        AND (r.overlap = 'replace' OR r.kind IN ('scheduled', 'triggered'))
    RETURNING r AS run
), replaced AS (
    INSERT INTO farmhand.run_history
    SELECT k.* FROM dropped o CROSS JOIN LATERAL farmhand.ended(o.run, 'cancelled', 'replaced', 'schedule') k
), recorded AS (
    INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
        state, reason, ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due,
        count)
    SELECT nextval('farmhand.run_id_seq'), d.job_id, d.rev, 'scheduled', 0, d.instances, $2, $3, $3,
        'skipped', d.skip, 'schedule', 0, 0, 0, '{}', statement_timestamp(), statement_timestamp(), $3, $3, 1
    FROM decided d WHERE d.skip IS NOT NULL
)
INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, gate, priority,
    placement, on_lost, overlap, hard_ms, firing)
SELECT CASE WHEN i = 0 THEN coalesce(d.firing, nextval('farmhand.run_id_seq')) ELSE nextval('farmhand.run_id_seq') END,
    d.job_id, d.rev, 'scheduled', i, d.instances, $2, $3, $3,
    CASE WHEN d.overlap <> 'allow' AND d.live THEN 'overlap' END, d.priority, d.placement, d.on_lost,
    d.overlap, d.hard_ms, d.firing
FROM decided d CROSS JOIN LATERAL generate_series(0, d.instances - 1) i
WHERE d.skip IS NULL
ORDER BY d.job_id, i
RETURNING run_id
