-- The run's own row says whose it is, whoever asks.
SELECT count(*) AS looked FROM farmhand.allow(coalesce($1, (SELECT r.job_id FROM farmhand.run_live r WHERE r.run_id = $2),
    (SELECT h.job_id FROM farmhand.run_history h WHERE h.run_id = $2 LIMIT 1)), coalesce($3, 'run ' || $2))
