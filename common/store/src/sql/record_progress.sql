-- As every write about an attempt: only of the attempt that holds the run. The lock keeps the run from
-- being freed, so the next claim comes after it: what a new attempt starts from is the last that was ever stored.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1)
        AS g(run_id bigint, attempt integer, fence bigint, address text, session bigint, checkpoint text)
), mine AS MATERIALIZED (
    SELECT r.run_id, r.attempt, g.checkpoint
    FROM farmhand.run_live r
    JOIN given g ON g.run_id = r.run_id AND g.attempt = r.attempt AND g.fence = r.fence
        AND g.address = r.running_at AND g.session = r.session
    WHERE r.state = 'running'
    ORDER BY r.run_id
    FOR SHARE OF r
)
INSERT INTO farmhand.progress AS p (run_id, attempt, at, checkpoint)
SELECT m.run_id, m.attempt, statement_timestamp(), m.checkpoint FROM mine m ORDER BY m.run_id
ON CONFLICT (run_id) DO UPDATE SET attempt = excluded.attempt, at = excluded.at,
    checkpoint = coalesce(excluded.checkpoint, p.checkpoint)
RETURNING p.run_id
