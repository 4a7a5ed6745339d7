-- For an agent without a session, while the timeline is closed.
SELECT farmhand.current_timeline() AS tli,
    EXISTS (SELECT FROM farmhand.timeline WHERE tli = farmhand.current_timeline()) AS open,
    greatest((SELECT max(t.longest_lease_ms) FROM farmhand.timeline t),
        (SELECT max(n.ttl_ms) FROM farmhand.node n WHERE n.open), 0) AS longest_ms
