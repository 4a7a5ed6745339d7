WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($3) AS g(run_id bigint, attempt integer, fence bigint, started_at timestamptz)
), mine AS MATERIALIZED (
    SELECT r.run_id, r.job_id, g.started_at
    FROM farmhand.run_live r JOIN given g ON g.run_id = r.run_id AND g.attempt = r.attempt AND g.fence = r.fence
    WHERE r.run_id = ANY (ARRAY(SELECT i.run_id FROM given i))
        AND r.state IS NOT DISTINCT FROM 'running' AND r.running_at IS NOT DISTINCT FROM $1 AND r.session IS NOT DISTINCT FROM $2
    ORDER BY r.run_id FOR UPDATE OF r
), live AS (
    UPDATE farmhand.run_live r SET started_at = m.started_at FROM mine m
    WHERE r.run_id = m.run_id AND r.run_id = ANY (ARRAY(SELECT i.run_id FROM mine i))
), stat AS (
    INSERT INTO farmhand.job_stat AS s (job_id, last_run_started)
    SELECT m.job_id, max(m.started_at) FROM mine m GROUP BY m.job_id ORDER BY m.job_id
    ON CONFLICT (job_id) DO UPDATE
        SET last_run_started = greatest(s.last_run_started, excluded.last_run_started)
)
SELECT run_id FROM mine
