-- What this transaction submitted just now meets the job's other live runs, on its own node for each-node jobs.
WITH live AS MATERIALIZED (
    SELECT r AS run FROM farmhand.run_live r
    WHERE r.job_id = $1 AND farmhand.overlaps(r) AND r.xmin <> pg_current_xact_id()::xid
    ORDER BY r.run_id FOR UPDATE
), rival AS MATERIALIZED (
    SELECT l.run FROM live l WHERE EXISTS (SELECT FROM farmhand.run_live r
        WHERE r.job_id = $1 AND r.kind = 'submitted' AND r.xmin = pg_current_xact_id()::xid
            AND (r.node IS NULL OR r.node = (l.run).node))
), mine AS MATERIALIZED (
    SELECT r AS run, EXISTS (SELECT FROM rival v WHERE (r.node IS NULL OR (v.run).node = r.node)
        AND ($2 <> 'replace' OR (v.run).state = 'running')) AS meets
    FROM farmhand.run_live r
    WHERE r.job_id = $1 AND r.kind = 'submitted' AND r.xmin = pg_current_xact_id()::xid
), skipped AS (
    DELETE FROM farmhand.run_live r USING mine m
    WHERE r.run_id = (m.run).run_id AND (m.run).state = 'due' AND $2 = 'skip' AND m.meets
    RETURNING r AS run
), dropped AS (
    DELETE FROM farmhand.run_live r USING rival v
    WHERE r.run_id = (v.run).run_id AND $2 = 'replace' AND (v.run).state = 'due'
    RETURNING r AS run
), kept AS (
    INSERT INTO farmhand.run_history
    SELECT k.* FROM (SELECT run, 'skipped' AS final, 'overlap' AS why FROM skipped
        UNION ALL SELECT run, 'cancelled', 'replaced' FROM dropped) e
    CROSS JOIN LATERAL farmhand.ended(e.run, e.final, e.why, 'schedule') k
), waits AS (
    UPDATE farmhand.run_live r SET overlap = $2, gate = CASE WHEN m.meets THEN 'overlap' ELSE r.gate END
    FROM mine m WHERE r.run_id = (m.run).run_id AND $2 IN ('queue', 'replace')
), told AS (
    -- "queue" makes their ends let go of what waits for them, also an end that has looked already.
    UPDATE farmhand.run_live r
    SET overlap = CASE WHEN r.overlap IN ('queue', 'replace') THEN r.overlap ELSE 'queue' END,
        cancel_requested = r.cancel_requested OR $2 = 'replace',
        cancel_by = CASE WHEN $2 = 'replace' THEN coalesce(r.cancel_by, 'replace') ELSE r.cancel_by END
    FROM rival v WHERE r.run_id = (v.run).run_id
        AND ($2 = 'queue' OR ($2 = 'replace' AND (v.run).state = 'running'))
    RETURNING r.run_id, r.running_at, r.cancel_requested
)
SELECT (SELECT count(*) FROM skipped) AS skipped,
    (SELECT count(pg_notify('farmhand', json_build_object('cancel', t.run_id, 'node', t.running_at)::text)::text)
        FROM told t WHERE t.cancel_requested AND t.running_at IS NOT NULL) AS cancelling
