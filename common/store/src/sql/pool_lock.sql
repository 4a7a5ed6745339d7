-- Every pool, and the runs that keep it from being deleted.
SELECT p.name, p.file_size, p.source,
    ARRAY(SELECT r.run_id FROM farmhand.run_live r
        JOIN farmhand.need n ON n.job_id = r.job_id AND n.rev = r.rev
        WHERE $1 AND (n.pool = p.name OR n.node_pool = p.name) ORDER BY r.run_id LIMIT 5) AS runs
FROM farmhand.pool p
ORDER BY p.name
FOR UPDATE OF p
