-- Without rounds of continuous jobs, which are taken away with the job. Counts to 1,000 at most.
SELECT count(*) FROM (SELECT FROM farmhand.run_live r
    WHERE r.job_id = $1 AND r.state = 'due' AND NOT (r.kind = 'continuous' AND r.attempt = 0) LIMIT 1000) w
