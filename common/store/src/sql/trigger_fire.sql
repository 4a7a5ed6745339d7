-- One firing of each of these jobs, whose rows are locked: the twin of "fire" for what others' ends make due.
WITH given AS MATERIALIZED (
    SELECT j.*, g.due_at, g.by_hand, g.parent_run, g.parents, g.params, g.skip AS unwanted, g.ends,
        CASE WHEN j.instances > 1 OR j.each_node THEN nextval('farmhand.run_id_seq') END AS firing
    FROM json_to_recordset($1) AS g(job_id text, due_at timestamptz, by_hand boolean, parent_run bigint,
        parents jsonb, params jsonb, skip text, ends bigint[])
    JOIN farmhand.job j ON j.job_id = g.job_id
), done AS (
    DELETE FROM farmhand.triggering t USING given g WHERE t.id = ANY (g.ends)
), rival AS MATERIALIZED (
    SELECT r AS run FROM farmhand.run_live r
    WHERE r.job_id IN (SELECT g.job_id FROM given g WHERE g.overlap = 'replace' AND g.unwanted IS NULL)
        -- Runs by hand and those of a backfill go on, unless they were made to be replaced.
        AND (r.overlap = 'replace' OR r.kind IN ('scheduled', 'triggered'))
        AND (r.node IS NULL OR EXISTS (SELECT FROM given g LEFT JOIN farmhand.node n ON n.address = r.node AND n.state = 'ready'
                AND (g.placement IS NULL OR n.labels @> ANY (g.placement))
            WHERE g.job_id = r.job_id AND (n.address IS NOT NULL OR NOT g.each_node)))
    ORDER BY r.run_id FOR UPDATE
), asked AS (
    -- With this rule its end looks for what waits for it, whatever rule it was made under.
    UPDATE farmhand.run_live r SET cancel_requested = true, cancel_by = 'replace', overlap = 'replace'
    FROM rival v WHERE r.run_id = (v.run).run_id AND (v.run).state = 'running'
    RETURNING r.run_id, r.job_id, r.node, r.running_at
), dropped AS (
    DELETE FROM farmhand.run_live r USING rival v WHERE r.run_id = (v.run).run_id AND (v.run).state = 'due'
), replaced AS (
    INSERT INTO farmhand.run_history
    SELECT k.* FROM rival v CROSS JOIN LATERAL farmhand.ended(v.run, 'cancelled', 'replaced', 'schedule') k
    WHERE (v.run).state = 'due'
), queue AS MATERIALIZED (
    SELECT g.job_id, CASE WHEN g.each_node THEN r.node ELSE '' END AS node, count(*)
    FROM given g JOIN farmhand.run_live r ON r.job_id = g.job_id
    WHERE g.overlap = 'queue' AND r.gate = 'overlap'
    GROUP BY 1, 2
), place AS MATERIALIZED (
    SELECT g.job_id, n.address AS node,
        CASE g.overlap
            WHEN 'allow' THEN false
            WHEN 'replace' THEN EXISTS (SELECT FROM asked a WHERE a.job_id = g.job_id
                AND (n.address IS NULL OR a.node = n.address))
            ELSE EXISTS (SELECT FROM farmhand.run_live r WHERE r.job_id = g.job_id AND farmhand.overlaps(r)
                AND (n.address IS NULL OR r.node = n.address)) END AS live,
        coalesce(q.count, 0) AS queued
    FROM given g
    LEFT JOIN farmhand.node n ON g.each_node AND n.state = 'ready'
        AND (g.placement IS NULL OR n.labels @> ANY (g.placement))
    LEFT JOIN queue q ON q.job_id = g.job_id AND q.node = coalesce(n.address, '')
    WHERE g.unwanted IS NULL
), firing AS MATERIALIZED (
    SELECT g.job_id, p.node, p.live AND g.overlap <> 'allow' AS waits,
        CASE WHEN g.unwanted IS NOT NULL THEN g.unwanted
             WHEN g.each_node AND p.node IS NULL THEN 'no_node'
             WHEN g.overlap = 'skip' AND p.live THEN 'overlap'
             WHEN g.overlap = 'queue' AND p.queued >= 1000 THEN 'queue_full' END AS skip
    FROM given g LEFT JOIN place p ON p.job_id = g.job_id
), made AS (
    INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, gate,
        priority, placement, on_lost, overlap, hard_ms, params, parent_run, parents, firing, by_hand)
    SELECT CASE WHEN row_number() OVER (PARTITION BY g.job_id ORDER BY f.node, i) = 1
            THEN coalesce(g.firing, nextval('farmhand.run_id_seq')) ELSE nextval('farmhand.run_id_seq') END,
        g.job_id, g.rev, 'triggered', i, g.instances, f.node, g.due_at, statement_timestamp(),
        CASE WHEN f.waits THEN 'overlap' END, g.priority, g.placement, g.on_lost, g.overlap, g.hard_ms,
        g.params, g.parent_run, g.parents, g.firing, g.by_hand
    FROM firing f
    JOIN given g ON g.job_id = f.job_id
    CROSS JOIN LATERAL generate_series(0, g.instances - 1) i
    WHERE f.skip IS NULL
    ORDER BY g.job_id, f.node, i
    RETURNING run_id, job_id
), skips AS MATERIALIZED (
    SELECT f.job_id, f.node, f.skip AS reason FROM firing f WHERE f.skip IS NOT NULL
), recorded AS (
    INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, state,
        reason, ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due,
        parent_run, parents, by_hand)
    SELECT nextval('farmhand.run_id_seq'), s.job_id, g.rev, 'triggered', 0, g.instances, s.node, g.due_at, g.due_at,
        'skipped', s.reason, 'schedule', 0, 0, 0, g.params, statement_timestamp(), statement_timestamp(), g.due_at,
        g.due_at, g.parent_run, g.parents, g.by_hand
    FROM skips s JOIN given g ON g.job_id = s.job_id
)
SELECT g.job_id,
    ARRAY(SELECT m.run_id FROM made m WHERE m.job_id = g.job_id ORDER BY m.run_id) AS run_ids,
    ARRAY(SELECT s.reason FROM skips s WHERE s.job_id = g.job_id) AS skipped,
    (SELECT pg_notify('farmhand', json_build_object('due', min(m.run_id), 'job', g.job_id, 'runs', count(*))::text)::text
        FROM made m WHERE m.job_id = g.job_id HAVING count(*) > 0) AS note,
    (SELECT count(pg_notify('farmhand', json_build_object('cancel', a.run_id, 'node', a.running_at)::text)::text)
        FROM asked a WHERE a.job_id = g.job_id) AS cancelling
FROM given g
