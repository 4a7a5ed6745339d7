SELECT n.address, n.name, n.session, n.life, n.beat, farmhand.shown_state(n) AS state,
    n.open, n.lease_until, n.ttl_ms, n.slots,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = n.address AND r.session = n.session LIMIT 10000) h) AS running,
    n.labels, n.version, n.started_at, n.clock_offset_ms, n.cannot_start, n.drain_until, n.withheld_by, n.withheld_at,
    (SELECT b.login FROM farmhand.node_login b WHERE b.address = n.address) AS login
FROM farmhand.node n
WHERE $1::text IS NULL OR n.address = $1
ORDER BY n.address
