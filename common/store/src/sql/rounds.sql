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
), ended AS MATERIALIZED (
    -- What waited for its time had not become due.
    SELECT count(*) FROM farmhand.end_runs(ARRAY(
        SELECT farmhand.ending(w.run, CASE WHEN (w.run).ready_at <= statement_timestamp() THEN 'skipped' ELSE 'dropped' END,
            w.why, 'schedule')
        FROM waiting w WHERE NOT w.wanted), lets_go => false)
), renewed AS (
    -- A new revision need not wait for what an old one's failures earned.
    UPDATE farmhand.run_live r
    SET rev = j.rev, gate = (SELECT n.gate FROM farmhand.need n WHERE n.job_id = j.job_id AND n.rev = j.rev), instances = j.instances, due_at = least(r.due_at, statement_timestamp()),
        ready_at = least(r.ready_at, statement_timestamp()), reason = NULL, retries = 0, priority = j.priority,
        placement = j.placement, hard_ms = j.hard_ms
    FROM waiting w JOIN j ON j.job_id = (w.run).job_id
    WHERE r.run_id = (w.run).run_id AND w.wanted AND (w.run).rev <> j.rev
)
SELECT farmhand.make_rounds($1) AS run_id FROM ended
