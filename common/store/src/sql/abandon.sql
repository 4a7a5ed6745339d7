-- Runs of each-node jobs that wait for a node which has been gone for long: their instant gets its outcome.
WITH gone AS MATERIALIZED (
    SELECT r AS run
    FROM farmhand.run_live r
    JOIN farmhand.node n ON n.address = r.node
    WHERE r.state = 'due' AND NOT n.open
        AND n.lease_until < statement_timestamp() - $1 * interval '1 second'
        AND r.ready_at < statement_timestamp() - $1 * interval '1 second'
    ORDER BY r.run_id
    FOR UPDATE OF r SKIP LOCKED
), dropped AS (
    DELETE FROM farmhand.run_live r USING gone g WHERE r.run_id = (g.run).run_id
), kept AS (
    INSERT INTO farmhand.run_history
    SELECT k.* FROM gone g
    CROSS JOIN LATERAL farmhand.ended(g.run, 'lost', 'its node is gone', 'takeover') k
)
SELECT (g.run).run_id FROM gone g
