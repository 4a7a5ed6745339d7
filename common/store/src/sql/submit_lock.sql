-- The job first, as whoever fires or promotes it.
SELECT j.job_id FROM farmhand.job j WHERE j.job_id = $1 FOR UPDATE
