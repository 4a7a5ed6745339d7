-- As finish, for rounds of continuous jobs. A round ends and the next one is made in one statement: so there is always one, and
-- never two. Its job is locked before its run (lock order: node, job, run), so that pausing or applying it comes wholly before or
-- after. A success folds into the success before it. While claims are closed nothing ends here and each end is returned without a
-- state: a number that is drawn then may have been given before.
WITH given AS MATERIALIZED (
    SELECT DISTINCT ON (g.run_id, g.attempt, g.fence, g.address, g.session) e.value AS ending, g.*
    FROM jsonb_array_elements($1::jsonb) e
    CROSS JOIN LATERAL jsonb_to_record(e.value)
        AS g(run_id bigint, attempt integer, fence bigint, address text, session bigint, state text, reason text,
            again_ms bigint)
    -- The order of locking.
    ORDER BY g.run_id, g.attempt, g.fence, g.address, g.session
), loop AS MATERIALIZED (
    SELECT j.* FROM farmhand.job j
    WHERE j.job_id IN (SELECT r.job_id FROM farmhand.run_live r JOIN given g ON g.run_id = r.run_id
        WHERE r.kind = 'continuous')
    ORDER BY j.job_id
    FOR SHARE OF j
), mine AS MATERIALIZED (
    SELECT l.run, g.state, g.reason, g.ending, g.again_ms
    FROM given g
    -- By its number, each in turn: a join might be done by reading all that is running, once for each end.
    CROSS JOIN LATERAL (
        SELECT r AS run FROM farmhand.run_live r
        WHERE r.run_id = g.run_id AND r.attempt = g.attempt AND r.fence = g.fence
            AND r.running_at IS NOT DISTINCT FROM g.address AND r.session IS NOT DISTINCT FROM g.session
            AND r.state IS NOT DISTINCT FROM 'running'
            -- Only to have the jobs locked first.
            AND (SELECT count(*) FROM loop) >= 0
            AND (SELECT e.open FROM farmhand.current_epoch e)
        LIMIT 1 FOR UPDATE
    ) l
), anew AS (
    -- Who pauses a job and cancels its round has it begin anew.
    DELETE FROM farmhand.progress p USING mine m JOIN loop j ON j.job_id = (m.run).job_id
    WHERE p.run_id = (m.run).run_id AND m.state = 'cancelled' AND j.paused AND (m.run).kind = 'continuous'
), folded AS (
    -- A round that was taken over keeps a record of its own. What the run says of the record before it is written by others, too: it goes only
    -- if it is a success of this very job and instance.
    DELETE FROM farmhand.run_history h USING mine m
    WHERE (m.run).kind = 'continuous' AND m.state = 'succeeded' AND (m.run).attempt = 1
        AND h.run_id = ((m.run).made->>'fold_run')::bigint AND h.finished_at = ((m.run).made->>'fold_at')::timestamptz AND h.rev = (m.run).rev
        AND h.job_id = (m.run).job_id AND h.instance = (m.run).instance AND h.kind = 'continuous' AND h.state = 'succeeded'
    RETURNING (m.run).run_id AS into_run, h.run_id, h.first_due, h.count, h.output_bytes
), ended AS MATERIALIZED (
    SELECT e.* FROM farmhand.end_runs(ARRAY(
        SELECT farmhand.ending(m.run, m.state, m.reason, 'holder', CASE WHEN f.run_id IS NULL THEN m.ending
            ELSE m.ending || jsonb_build_object('first_due', f.first_due, 'count', f.count + 1) END)
        FROM mine m LEFT JOIN folded f ON f.into_run = (m.run).run_id), lets_go => false) e
), made AS MATERIALIZED (
    -- Of the next rounds the farm is told nothing: mostly they stay where they were.
    SELECT count(*) FROM (SELECT count(*) FROM ended) e CROSS JOIN LATERAL farmhand.make_runs('rounds', ARRAY(
        SELECT jsonb_populate_record(NULL::farmhand.want, jsonb_build_object('job_id', j.job_id, 'instance', (m.run).instance,
            'overlap', 'allow', 'late_ms', 0, 'due', jsonb_build_array(
                statement_timestamp() + coalesce(m.again_ms, 1000) * interval '1 millisecond'),
            'reason', CASE WHEN b.bad THEN 'backoff' WHEN m.again_ms > 0 THEN 'idle' END,
            'retries', CASE WHEN b.bad THEN (m.run).retries + 1 END,
            'made', CASE WHEN b.folds THEN jsonb_build_object('fold_run', (m.run).run_id, 'fold_at', statement_timestamp()) END))
        FROM mine m JOIN loop j ON j.job_id = (m.run).job_id
        CROSS JOIN LATERAL (SELECT m.state IN ('failed', 'timed_out') AS bad,
            m.state = 'succeeded' AND (m.run).attempt = 1 AS folds) b
        WHERE (m.run).kind = 'continuous' AND j.kind = 'continuous' AND (m.run).instance < j.instances
        ORDER BY j.job_id, (m.run).instance), NULL) r
), unlogged AS (
    DELETE FROM farmhand.run_log l USING folded f
    WHERE l.run_id = f.run_id AND f.output_bytes IS DISTINCT FROM 0
), unreported AS (
    DELETE FROM farmhand.progress p USING folded f WHERE p.run_id = f.run_id
), untasked AS (
    DELETE FROM farmhand.task t USING folded f WHERE t.run_id = f.run_id
)
SELECT e.* FROM ended e CROSS JOIN made
UNION ALL
SELECT g.run_id, g.attempt, g.fence, g.address, g.session, '', NULL
FROM given g WHERE NOT (SELECT e.open FROM farmhand.current_epoch e)
