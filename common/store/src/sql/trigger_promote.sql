SELECT farmhand.ends_promote(ARRAY(SELECT j.job_id FROM farmhand.job j WHERE j.job_id = ANY ($1) AND j.overlap = 'queue'))::text
