-- Names that begin with $2, for a shell that completes: jobs, nodes and pools in their order, the newest runs first.
SELECT n.name, n.hint FROM (
    SELECT j.job_id AS name, NULL AS hint, row_number() OVER (ORDER BY j.job_id) AS nth
    FROM farmhand.job j WHERE $1 = 'jobs' AND NOT j.deleted AND starts_with(j.job_id, $2)
    UNION ALL
    SELECT n.address, farmhand.shown_state(n), row_number() OVER (ORDER BY n.address)
    FROM farmhand.node n WHERE $1 = 'nodes' AND starts_with(n.address, $2)
    UNION ALL
    SELECT p.name, p.size::text || ' places', row_number() OVER (ORDER BY p.name)
    FROM farmhand.pool p WHERE $1 = 'pools' AND starts_with(p.name, $2)
    UNION ALL
    SELECT r.run_id::text, r.job_id || ', ' || r.state, row_number() OVER (ORDER BY r.run_id DESC)
    FROM (SELECT run_id, job_id, state FROM farmhand.run WHERE $1 = 'runs' ORDER BY run_id DESC LIMIT 200) r
    WHERE starts_with(r.run_id::text, $2)
) n
ORDER BY n.nth LIMIT 500
