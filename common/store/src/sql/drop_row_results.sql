DELETE FROM farmhand.row_result p
WHERE p.id = ANY (ARRAY(SELECT o.id FROM farmhand.row_result o
    WHERE o.noted_at < statement_timestamp() - $1 * interval '1 day' LIMIT 10000))
RETURNING p.run_id
