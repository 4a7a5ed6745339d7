-- The first time that is written down for an attempt stands: a later agent, and a repetition, say it again.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($3) AS g(run_id bigint, attempt integer, fence bigint, started_at timestamptz)
    ORDER BY g.run_id
), mine AS MATERIALIZED (
    -- By its number, each in turn, in the order of locking.
    SELECT l.*, g.started_at FROM given g
    CROSS JOIN LATERAL (
        SELECT r.run_id, r.job_id, r.rev, r.attempt, r.key FROM farmhand.run_live r
        WHERE r.run_id = g.run_id AND r.attempt = g.attempt AND r.fence = g.fence
            AND r.state IS NOT DISTINCT FROM 'running' AND r.running_at IS NOT DISTINCT FROM $1
            AND r.session IS NOT DISTINCT FROM $2 AND r.started_at IS NULL
        LIMIT 1 FOR UPDATE
    ) l
), live AS (
    UPDATE farmhand.run_live r SET started_at = m.started_at FROM mine m WHERE r.run_id = m.run_id
), stat AS (
    INSERT INTO farmhand.job_stat AS s (job_id, last_run_started)
    SELECT m.job_id, max(m.started_at) FROM mine m GROUP BY m.job_id ORDER BY m.job_id
    ON CONFLICT (job_id) DO UPDATE
        SET last_run_started = greatest(s.last_run_started, excluded.last_run_started)
), noted AS (
    INSERT INTO farmhand.row_result (run_id, attempt, job_id, rev, key, started_at)
    SELECT m.run_id, m.attempt, m.job_id, m.rev, m.key, m.started_at FROM mine m
    JOIN farmhand.job_revision v ON v.job_id = m.job_id AND v.rev = m.rev
    WHERE m.key IS NOT NULL AND v.spec->'table'->>'started' IS NOT NULL
)
SELECT run_id, key IS NOT NULL AS of_row FROM mine
