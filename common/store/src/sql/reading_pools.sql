WITH page AS (
    SELECT * FROM farmhand.pool p WHERE ($1::text IS NULL OR p.name = $1) AND ($2::text IS NULL OR p.name > $2)
    ORDER BY p.name LIMIT $3
)
SELECT p.name, p.size, p.file_size, p.source, p.changed_by, p.changed_at,
    (SELECT coalesce(jsonb_agg(to_jsonb(h) ORDER BY h.since, h.run_id), '[]') FROM (
        SELECT h.run_id, h.job_id, h.running_at AS node, h.claimed_at AS since,
            h.pool IS DISTINCT FROM p.name AS per_node
        FROM farmhand.holding h WHERE h.pool = p.name OR h.node_pool = p.name
        ORDER BY h.claimed_at, h.run_id LIMIT 200) h) AS holders,
    (SELECT count(*) FROM (SELECT FROM farmhand.holding h WHERE h.pool = p.name LIMIT 10000) h) AS in_use,
    (SELECT coalesce(jsonb_object_agg(u.node, u.n), '{}') FROM (SELECT h.node, count(*) AS n
        FROM (SELECT h.running_at AS node FROM farmhand.holding h WHERE h.node_pool = p.name LIMIT 10000) h
        GROUP BY h.node) u) AS on_nodes,
    w.waiting, w.waiters,
    ARRAY(SELECT j.job_id FROM farmhand.job j
        JOIN farmhand.need n ON n.job_id = j.job_id AND n.rev = j.rev
        WHERE NOT j.deleted AND (n.pool = p.name OR n.node_pool = p.name) ORDER BY j.job_id LIMIT 200) AS jobs
FROM page p
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, coalesce(jsonb_agg(jsonb_build_object('run_id', w.run_id, 'job_id', w.job_id,
        'ready_at', w.ready_at) ORDER BY w.ready_at, w.run_id) FILTER (WHERE w.nth <= 50), '[]') AS waiters
    FROM (SELECT r.*, row_number() OVER (ORDER BY r.ready_at, r.run_id) AS nth
        FROM (SELECT r.run_id, r.job_id, r.ready_at FROM farmhand.run_live r
            JOIN farmhand.need n ON n.job_id = r.job_id AND n.rev = r.rev
            WHERE r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate') AND r.ready_at <= statement_timestamp()
                AND (n.pool = p.name OR n.node_pool = p.name) LIMIT 1000) r) w) w
ORDER BY p.name
