INSERT INTO farmhand.need (job_id, rev, gate, pool, node_pool, locks, rate_count, rate_ms)
SELECT g.job_id, g.rev, g.gate, g.pool, g.node_pool, coalesce(g.locks, '{}'), g.rate_count, g.rate_ms
FROM json_to_recordset($1) AS g(job_id text, rev bigint, gate text, pool text, node_pool text, locks text[],
    rate_count integer, rate_ms bigint)
