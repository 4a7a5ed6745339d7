-- Not while it holds anything: its session is over, and nothing of it may still live there.
WITH removed AS (
    DELETE FROM farmhand.node n
    WHERE n.address = $1 AND NOT n.open
        AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.state = 'running' AND r.running_at = n.address)
    RETURNING n.address
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, address, detail)
    SELECT statement_timestamp(), 'node_removed', 'info', r.address, jsonb_build_object('by', $2::text) FROM removed r
)
SELECT r.address FROM removed r
