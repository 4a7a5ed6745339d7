SELECT s.job_id, s.rev, s.document, s.key_name AS key, s.signature
FROM farmhand.job_signature s
JOIN unnest($1::text[], $2::bigint[]) AS w(job_id, rev) ON s.job_id = w.job_id AND s.rev = w.rev
