-- The job first, as whoever fires or promotes it; "mark" is below the number of every run made from here on.
SELECT nextval('farmhand.run_id_seq') AS mark, (SELECT j.job_id FROM farmhand.job j WHERE j.job_id = $1 FOR UPDATE)
    AS job_id
