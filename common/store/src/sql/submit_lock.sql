-- The job first, as whoever fires or promotes it; "mark" is below the number of every run made from here on.
SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END AS mark,
    (SELECT j.job_id FROM farmhand.job j WHERE j.job_id = $1 FOR UPDATE) AS job_id
FROM farmhand.run_id_seq q
