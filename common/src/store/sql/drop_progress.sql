-- Only of runs that have ended: one that lives for longer than the history is kept still needs it.
WITH old AS (
    SELECT p.run_id FROM farmhand.progress p
    WHERE p.at < statement_timestamp() - $1 * interval '1 day'
        AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id = p.run_id)
    ORDER BY p.run_id LIMIT 10000
)
DELETE FROM farmhand.progress p USING old o WHERE p.run_id = o.run_id RETURNING p.run_id
