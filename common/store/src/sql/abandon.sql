-- Runs that only one node may run and that it never will: it has been gone for long, was removed, or no longer has the
-- labels that its job wants. Their instant gets its outcome.
WITH chosen AS MATERIALIZED (
    SELECT r AS run, w.why, CASE WHEN w.why = 'its node is gone' THEN 'lost'
        WHEN r.attempt = 0 THEN 'skipped' ELSE 'cancelled' END AS final
    FROM farmhand.run_live r
    LEFT JOIN farmhand.node n ON n.address = r.node
    CROSS JOIN LATERAL (SELECT CASE
        WHEN n.address IS NULL THEN 'its node was removed'
        WHEN n.open AND NOT n.labels @> ANY (r.placement) THEN 'the labels of its node changed'
        -- While the database was away, no node was: what counts is when it was found to be gone.
        WHEN NOT n.open AND greatest(n.lease_until, n.lost_at) < statement_timestamp() - $1 * interval '1 second'
            AND r.ready_at < statement_timestamp() - $1 * interval '1 second' THEN 'its node is gone' END AS why) w
    WHERE r.state = 'due' AND r.node IS NOT NULL AND w.why IS NOT NULL
    ORDER BY r.run_id
    FOR UPDATE OF r SKIP LOCKED
)
SELECT e.run_id FROM farmhand.end_runs(ARRAY(
    SELECT farmhand.ending(c.run, c.final, c.why, CASE c.final WHEN 'lost' THEN 'takeover' ELSE 'schedule' END) FROM chosen c)) e
