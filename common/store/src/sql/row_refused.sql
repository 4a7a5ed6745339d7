-- A note that could not be written waits, twice as long each time, up to five minutes. The table's reason is an event when it is
-- news; a lock ($3) is none.
WITH why AS (
    SELECT p.id, CASE WHEN $3 THEN p.error ELSE $2 END AS error FROM farmhand.row_result p WHERE p.id = $1
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, detail)
    SELECT clock_timestamp(), 'row_not_written', 'error', p.job_id, p.run_id,
        jsonb_build_object('key', p.key, 'error', w.error)
    FROM farmhand.row_result p JOIN why w ON w.id = p.id WHERE p.error IS NULL AND w.error IS NOT NULL
)
UPDATE farmhand.row_result p
SET error = w.error, tries = least(p.tries + 1, 30),
    ready_at = clock_timestamp() + least(300, CASE WHEN $3 THEN 0.25 ELSE 1 END * 2 ^ least(p.tries, 10)) * interval '1 second'
FROM why w WHERE w.id = p.id
RETURNING p.id
