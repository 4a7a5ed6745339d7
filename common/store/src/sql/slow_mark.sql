-- Writes down runs that take longer than usual and forgets those that have ended. Returned are the runs of which that is news: a
-- later attempt of a run is none.
WITH ended AS (
    DELETE FROM farmhand.slow_run s WHERE NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id = s.run_id)
), found AS (
    INSERT INTO farmhand.slow_run AS s (run_id, job_id, attempt, p95_ms, runs)
    SELECT r.run_id, r.job_id, r.attempt, g.p95_ms, g.runs
    FROM json_to_recordset($1) AS g(run_id bigint, attempt integer, p95_ms bigint, runs integer)
    JOIN farmhand.run_live r ON r.run_id = g.run_id AND r.attempt = g.attempt AND r.state = 'running'
    ORDER BY r.run_id
    ON CONFLICT (run_id) DO UPDATE SET attempt = excluded.attempt, p95_ms = excluded.p95_ms, runs = excluded.runs
    RETURNING s.run_id, s.xmax = 0 AS first
)
SELECT f.run_id FROM found f WHERE f.first ORDER BY f.run_id
