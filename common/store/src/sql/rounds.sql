-- Gives these jobs, which are locked, the rounds that their definitions ask for: of a continuous job one live
-- run per instance, of any other none that waits. A round that runs, or was taken over, goes on to its end. While claims are
-- closed no round is made; the sweep makes it when they are open.
WITH j AS MATERIALIZED (
    SELECT *, kind = 'continuous' AND farmhand.may_make('rounds', state, observe) = 'run' AS looping
    FROM farmhand.job WHERE job_id = ANY ($1)
), waiting AS MATERIALIZED (
    -- Locked, so that one just being claimed is seen as running.
    SELECT r AS run, j.looping AND r.instance < j.instances AS wanted,
        CASE WHEN j.kind = 'continuous' AND j.paused THEN 'paused' ELSE 'withdrawn' END AS why
    FROM farmhand.run_live r JOIN j ON j.job_id = r.job_id
    WHERE r.kind = 'continuous' AND r.state = 'due' AND r.attempt = 0
    ORDER BY r.run_id
    FOR UPDATE OF r
), gone AS (
    DELETE FROM farmhand.run_live r USING waiting w WHERE r.run_id = (w.run).run_id AND NOT w.wanted
), skipped AS (
    -- What waited for its time had not become due.
    INSERT INTO farmhand.run_history
    SELECT k.* FROM waiting w
    CROSS JOIN LATERAL farmhand.ended(w.run, 'skipped', w.why, 'schedule') k
    WHERE NOT w.wanted AND (w.run).ready_at <= statement_timestamp()
), renewed AS (
    -- A new revision need not wait for what an old one's failures earned.
    UPDATE farmhand.run_live r
    SET rev = j.rev, instances = j.instances, due_at = least(r.due_at, statement_timestamp()),
        ready_at = least(r.ready_at, statement_timestamp()), reason = NULL, retries = 0, priority = j.priority,
        placement = j.placement, on_lost = j.on_lost, hard_ms = j.hard_ms
    FROM waiting w JOIN j ON j.job_id = (w.run).job_id
    WHERE r.run_id = (w.run).run_id AND w.wanted AND (w.run).rev <> j.rev
), made AS (
    INSERT INTO farmhand.run_live (job_id, rev, kind, instance, instances, due_at, ready_at, priority, placement,
        on_lost, overlap, hard_ms, spread)
    SELECT j.job_id, j.rev, 'continuous', i, j.instances, statement_timestamp(), statement_timestamp(),
        j.priority, j.placement, j.on_lost, 'allow', j.hard_ms,
        -- Not every job begins with the same node.
        CASE WHEN j.instances > 1 THEN hashtext(j.job_id) & 2147483647 END
    FROM j CROSS JOIN LATERAL generate_series(0, j.instances - 1) i
    WHERE j.looping AND (SELECT e.open FROM farmhand.current_epoch e) AND NOT EXISTS (SELECT FROM farmhand.run_live r
        WHERE r.job_id = j.job_id AND r.kind = 'continuous' AND r.instance = i)
    ORDER BY j.job_id, i
    ON CONFLICT DO NOTHING
    RETURNING run_id, job_id
)
SELECT m.run_id, CASE WHEN row_number() OVER () = 1 THEN pg_notify('farmhand',
    json_build_object('due', m.run_id, 'job', m.job_id, 'runs', count(*) OVER ())::text)::text END AS note
FROM made m
