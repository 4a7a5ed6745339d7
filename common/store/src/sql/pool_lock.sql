-- Every pool, the runs that keep it from being deleted, and the first job beside those of $2 that names it.
SELECT p.name, p.file_size, p.source,
    ARRAY(SELECT r.run_id FROM farmhand.run_live r
        JOIN farmhand.need n ON n.job_id = r.job_id AND n.rev = r.rev
        WHERE $1 AND (n.pool = p.name OR n.node_pool = p.name) ORDER BY r.run_id LIMIT 5) AS runs,
    (SELECT jsonb_build_object('job_id', j.job_id, 'source', j.source) FROM farmhand.job j
        JOIN farmhand.need n ON n.job_id = j.job_id AND n.rev = j.rev
        WHERE $1 AND NOT j.deleted AND j.job_id <> ALL ($2) AND (n.pool = p.name OR n.node_pool = p.name)
        ORDER BY j.job_id LIMIT 1) AS needed_by
FROM farmhand.pool p
ORDER BY p.name
FOR UPDATE OF p
