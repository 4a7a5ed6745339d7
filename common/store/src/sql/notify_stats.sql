INSERT INTO farmhand.job_stat (job_id) SELECT j FROM unnest($1::text[]) AS j ORDER BY j ON CONFLICT (job_id) DO NOTHING
