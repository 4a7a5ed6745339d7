-- Ends attempts of holders. Their runs end ("state"), or are due again: unless they are to be cancelled or may not be run twice.
-- The fence besides the attempt's number: after a failover that lost commits a number is given a second time.
WITH given AS MATERIALIZED (
    SELECT DISTINCT ON (g.run_id, g.attempt, g.fence, g.address, g.session) e.value AS ending, g.*
    FROM jsonb_array_elements($1::jsonb) e
    CROSS JOIN LATERAL jsonb_to_record(e.value)
        AS g(run_id bigint, attempt integer, fence bigint, address text, session bigint, state text, reason text, outcome text,
            ran boolean, counts text, delay_ms bigint)
    -- The order in which rows are locked, as long as the plan goes through them one by one; where two sets deadlock all the
    -- same, the one that loses is sent again.
    ORDER BY g.run_id, g.attempt, g.fence, g.address, g.session
)
SELECT e.* FROM farmhand.end_runs(ARRAY(
    SELECT ROW(g.run_id, g.attempt, g.fence, g.address, g.session, g.state, g.reason, 'holder', g.ending, g.outcome, NULL, g.delay_ms,
        g.counts)::farmhand.ending
    FROM given g WHERE g.state IS NOT NULL
    UNION ALL
    SELECT ROW(g.run_id, g.attempt, g.fence, g.address, g.session, l.goes_to, CASE l.goes_to WHEN 'due' THEN g.reason
            WHEN 'failed' THEN 'poison' ELSE coalesce(g.reason, l.goes_to) END,
        'holder', g.ending, g.outcome, CASE g.counts WHEN 'retry' THEN 'retry' ELSE g.outcome END, g.delay_ms, g.counts)::farmhand.ending
    FROM given g
    -- By its number, each in turn: a join might be done by reading all that is running, once for each end.
    CROSS JOIN LATERAL (
        SELECT farmhand.goes_to(r.cancel_by IS NOT NULL, v.spec->>'on_lost', g.ran, r.takeovers, g.counts = 'takeover') AS goes_to
        FROM farmhand.run_live r LEFT JOIN farmhand.job_revision v ON v.job_id = r.job_id AND v.rev = r.rev
        WHERE r.run_id = g.run_id LIMIT 1 FOR UPDATE OF r
    ) l
    WHERE g.state IS NULL)) e
