WITH old AS (
    SELECT s.run_id, s.item FROM farmhand.stream_item s
    WHERE s.stored_at < statement_timestamp() - greatest($1, (SELECT f.at_least FROM farmhand.retention f)) * interval '1 day'
        AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id = s.run_id)
    LIMIT 10000
)
DELETE FROM farmhand.stream_item s USING old o WHERE s.run_id = o.run_id AND s.item = o.item RETURNING s.item
