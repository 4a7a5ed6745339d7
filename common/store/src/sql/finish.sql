-- The fence besides the attempt's number: after a failover that lost commits a number is given a second time.
WITH given AS MATERIALIZED (
    SELECT DISTINCT ON (g.run_id, g.attempt, g.fence, g.address, g.session) e.value AS ending, g.*
    FROM jsonb_array_elements($1::jsonb) e
    CROSS JOIN LATERAL jsonb_to_record(e.value)
        AS g(run_id bigint, attempt integer, fence bigint, address text, session bigint, state text,
            reason text)
    -- The order in which rows are locked, as long as the plan goes through them one by one; where two sets deadlock all the
    -- same, the one that loses is sent again.
    ORDER BY g.run_id, g.attempt, g.fence, g.address, g.session
), gone AS (
    -- What is taken away is what is kept: no lock of its own before. No array of the numbers beside the join: a plan that goes by
    -- it compares each end with each.
    DELETE FROM farmhand.run_live r USING given g
    WHERE r.run_id = g.run_id AND r.attempt = g.attempt AND r.fence = g.fence
        AND r.running_at IS NOT DISTINCT FROM g.address AND r.session IS NOT DISTINCT FROM g.session
        AND r.state IS NOT DISTINCT FROM 'running'
    RETURNING r AS run, g.state, g.reason, g.ending
), written AS MATERIALIZED (
    SELECT farmhand.write_ends((SELECT array_agg(k) FROM gone m
        CROSS JOIN LATERAL farmhand.ended(m.run, m.state, m.reason, 'holder', m.ending) k))
)
SELECT (m.run).run_id, (m.run).attempt, (m.run).fence, (m.run).running_at AS address, (m.run).session, (m.run).job_id,
    m.state AS ended
FROM gone m CROSS JOIN written
