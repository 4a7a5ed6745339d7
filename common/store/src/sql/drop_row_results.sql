DELETE FROM farmhand.row_result p
WHERE p.run_id IN (SELECT o.run_id FROM farmhand.row_result o
    WHERE o.finished_at < statement_timestamp() - $1 * interval '1 day' LIMIT 10000)
RETURNING p.run_id
