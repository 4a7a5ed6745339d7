-- Only of runs that have ended: one that lives for longer than the history is kept still needs it. Numbers grow with time, so
-- the oldest are in front: what is there is looked at, and never the whole table.
WITH front AS MATERIALIZED (
    SELECT p.run_id, p.at FROM farmhand.progress p ORDER BY p.run_id LIMIT 20000
), old AS (
    SELECT p.run_id FROM front p
    WHERE p.at < statement_timestamp() - greatest($1, (SELECT f.at_least FROM farmhand.retention f)) * interval '1 day'
        AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id = p.run_id)
        -- A stream that follows its file goes on from its last round.
        AND NOT EXISTS (SELECT FROM farmhand.run_history h WHERE h.run_id = p.run_id AND h.kind = 'continuous')
    LIMIT 10000
)
DELETE FROM farmhand.progress p USING old o WHERE p.run_id = o.run_id RETURNING p.run_id
