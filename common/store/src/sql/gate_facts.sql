-- What the runs of a revision need, who has it, and which runs that wait for the same come before run $3.
SELECT n.pool, n.node_pool, n.locks, n.rate_count, n.rate_ms,
    (SELECT p.size FROM farmhand.pool p WHERE p.name = n.pool) AS pool_size,
    (SELECT p.size FROM farmhand.pool p WHERE p.name = n.node_pool) AS node_pool_size,
    CASE WHEN n.rate_count IS NOT NULL THEN farmhand.rate_free_at(n.job_id, n.rate_count, n.rate_ms) END AS rate_free_at,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('run_id', h.run_id, 'job_id', h.job_id, 'node', h.running_at,
            -- Within the years that clients read.
            'since', least(greatest(h.claimed_at, '1900-01-01 UTC'), '9999-01-01 UTC'),
            'pool', h.pool, 'node_pool', h.node_pool, 'locks', h.locks)
            ORDER BY h.claimed_at, h.run_id), '[]')
        FROM farmhand.holding h
        WHERE h.pool = n.pool OR h.node_pool = n.node_pool OR h.locks && n.locks) AS holders,
    coalesce((SELECT farmhand.waits_for(r.job_id, r.rev, r.node, r.run_id, r.priority, r.ready_at) = 'pool'
        FROM farmhand.run_live r WHERE r.run_id = $3), false) AS pool_full,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('name', l.name, 'client', l.client, 'login', l.login,
            'since', l.acquired_at) ORDER BY l.acquired_at, l.name), '[]')
        FROM farmhand.lease_holder l WHERE l.name = ANY (n.locks)) AS leases,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('run_id', w.run_id, 'job_id', w.job_id, 'locks', w.locks)
            ORDER BY w.priority DESC, w.ready_at, w.run_id), '[]')
        FROM farmhand.waiting w
        JOIN farmhand.run_live r ON r.run_id = $3
        WHERE w.locks && n.locks AND w.ready_at <= statement_timestamp() AND farmhand.may_keep(w)
            AND (-w.priority, w.ready_at, w.run_id) < (-r.priority, r.ready_at, r.run_id)) AS before
FROM farmhand.need n
WHERE n.job_id = $1 AND n.rev = $2
