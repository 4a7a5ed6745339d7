-- At most 1,000 nodes, and the clock even if there is none.
SELECT clock_timestamp() AS db_now, n.address, n.state, n.slots, n.lost_at, n.ttl_ms
FROM (SELECT) one
LEFT JOIN LATERAL (
    SELECT n.address, farmhand.shown_state(n) AS state, n.slots, n.lost_at, n.ttl_ms
    FROM farmhand.node n WHERE cardinality($1::text[]) = 0 OR n.address = ANY ($1)
    ORDER BY n.address LIMIT 1000
) n ON true
ORDER BY n.address
