-- Every target, and the first job beside those of $1 that names it.
SELECT t.name, t.spec, t.source,
    (SELECT jsonb_build_object('job_id', j.job_id, 'source', j.source) FROM farmhand.job j
        JOIN farmhand.notify_edge e ON e.job_id = j.job_id
        WHERE NOT j.deleted AND j.job_id <> ALL ($1) AND e.target = t.name
        ORDER BY j.job_id LIMIT 1) AS needed_by
FROM farmhand.notify_target t
ORDER BY t.name
FOR UPDATE OF t
