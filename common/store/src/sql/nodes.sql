-- The state as the page and the metrics say it; "lease_until" is compared with the server's clock for people only.
SELECT n.address, n.name, n.session, n.life, n.beat, CASE WHEN n.open AND n.lease_until < statement_timestamp() THEN 'expired'
        WHEN n.open THEN n.state
        WHEN n.lost_at > statement_timestamp() - interval '1 day' THEN 'lost' ELSE 'closed' END AS state, n.open, n.lease_until, n.ttl_ms, n.slots,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = n.address AND r.session = n.session LIMIT 10000) h) AS running,
    n.labels, n.version, n.started_at, n.clock_offset_ms, n.drain_until, n.withheld_by, n.withheld_at
FROM farmhand.node n
WHERE $1::text IS NULL OR n.address = $1
ORDER BY n.address
