SELECT j.job_id, v.spec->'table' AS "table",
    (SELECT to_jsonb(c) FROM farmhand.check_table(v.spec->'table') c LIMIT 1) AS problem,
    (SELECT count(*) FROM (SELECT FROM farmhand.row_result p WHERE p.job_id = j.job_id LIMIT 1000) w) AS unwritten,
    (SELECT p.error FROM farmhand.row_result p WHERE p.job_id = j.job_id AND p.error IS NOT NULL LIMIT 1) AS error
FROM farmhand.job j JOIN farmhand.job_revision v USING (job_id, rev)
WHERE NOT j.deleted AND jsonb_typeof(v.spec->'table') = 'object'
ORDER BY j.job_id
