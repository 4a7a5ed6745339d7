WITH gone AS (DELETE FROM farmhand.acknowledgement a WHERE a.until <= statement_timestamp() RETURNING 1)
SELECT count(*) AS gone FROM gone
