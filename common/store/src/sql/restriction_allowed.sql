SELECT j.job_id FROM unnest($1) AS j(job_id) WHERE farmhand.allowed(j.job_id)
