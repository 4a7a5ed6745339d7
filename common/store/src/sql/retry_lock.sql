-- The job first, as whoever fires or promotes it. None whose runs may overlap.
SELECT j.job_id FROM farmhand.job j
WHERE j.job_id = (SELECT h.job_id FROM farmhand.run_history h WHERE h.run_id = $1 LIMIT 1) AND j.overlap <> 'allow'
FOR UPDATE
