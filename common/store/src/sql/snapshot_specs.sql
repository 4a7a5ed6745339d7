SELECT v.job_id, v.rev, v.spec
FROM json_to_recordset($1) AS g(job_id text, rev bigint)
JOIN farmhand.job_revision v ON v.job_id = g.job_id AND v.rev = g.rev
