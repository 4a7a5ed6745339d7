-- Not rounds of continuous jobs: these are taken away with the job. Nobody needs a larger number.
SELECT count(*) FROM (SELECT FROM farmhand.run_live r
    WHERE r.job_id = $1 AND r.state = 'due' AND NOT (r.kind = 'continuous' AND r.attempt = 0) LIMIT 1000) w
