SELECT p.name, p.size, p.file_size, p.source, p.changed_by, p.changed_at,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('run_id', h.run_id, 'job_id', h.job_id, 'node', h.running_at,
            'since', h.claimed_at, 'per_node', h.pool IS DISTINCT FROM p.name) ORDER BY h.claimed_at, h.run_id), '[]')
        FROM farmhand.holding h WHERE h.pool = p.name OR h.node_pool = p.name) AS holders,
    (SELECT count(*) FROM farmhand.run_live r
        JOIN farmhand.need n ON n.job_id = r.job_id AND n.rev = r.rev
        WHERE r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate') AND r.ready_at <= statement_timestamp()
            AND (n.pool = p.name OR n.node_pool = p.name)) AS waiting,
    ARRAY(SELECT j.job_id FROM farmhand.job j
        JOIN farmhand.need n ON n.job_id = j.job_id AND n.rev = j.rev
        WHERE NOT j.deleted AND (n.pool = p.name OR n.node_pool = p.name) ORDER BY j.job_id) AS jobs
FROM farmhand.pool p
WHERE $1::text IS NULL OR p.name = $1
ORDER BY p.name
