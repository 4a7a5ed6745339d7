WITH old AS (
    SELECT s.run_id, s.item FROM farmhand.stream_item s
    WHERE s.stored_at < statement_timestamp() - greatest($1, (SELECT f.at_least FROM farmhand.retention f)) * interval '1 day'
        -- A replay is the mark of the lines that it replayed, for as long as the run that gave them up is known.
        AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id IN (s.run_id, s.of_run))
        AND NOT EXISTS (SELECT FROM farmhand.run_history h WHERE h.run_id IN (s.run_id, s.of_run))
    LIMIT 10000
)
DELETE FROM farmhand.stream_item s USING old o WHERE s.run_id = o.run_id AND s.item = o.item RETURNING s.item
