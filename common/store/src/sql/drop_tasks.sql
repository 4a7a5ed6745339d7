-- The oldest are in front: what is there is looked at, and never a whole week.
WITH front AS MATERIALIZED (
    SELECT t.run_id, t.task, t.attempt FROM farmhand.task t
    WHERE t.stored_at < statement_timestamp() - greatest($1, (SELECT f.at_least FROM farmhand.retention f)) * interval '1 day'
    ORDER BY t.stored_at LIMIT 20000
), old AS (
    SELECT t.run_id, t.task, t.attempt FROM front t
    WHERE NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id = t.run_id)
        -- Who runs it again from what failed on needs what succeeded, for as long as the run is known.
        AND NOT EXISTS (SELECT FROM farmhand.run_history h WHERE h.run_id = t.run_id)
    LIMIT 10000
)
DELETE FROM farmhand.task t USING old o
WHERE t.run_id = o.run_id AND t.task = o.task AND t.attempt = o.attempt
RETURNING t.task
