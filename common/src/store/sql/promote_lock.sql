SELECT j.job_id FROM farmhand.job j
WHERE CASE WHEN $1::text[] IS NULL
    THEN j.job_id IN (SELECT r.job_id FROM farmhand.run_live r WHERE r.gate = 'overlap')
    ELSE j.job_id = ANY ($1) END
ORDER BY j.job_id
FOR UPDATE
