WITH seat AS (
    SELECT n.*, farmhand.shown_state(n) AS is
    FROM farmhand.node n
    WHERE ($1::text IS NULL OR n.address = $1) AND ($3::text IS NULL OR n.address > $3)
), page AS (
    SELECT * FROM seat s WHERE $2::text IS NULL OR s.is = $2 ORDER BY s.address LIMIT $4
)
SELECT p.address, p.name, p.session, p.open, p.is AS state, p.lease_until, p.ttl_ms, p.slots, p.labels, p.version,
    p.started_at, p.clock_offset_ms, p.cannot_start, p.lost_at, p.drain_until, p.withheld_by, p.withheld_at,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = p.address LIMIT 1000) h) AS running,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = p.address AND r.session < p.session LIMIT 1000) h) AS held,
    (SELECT coalesce(jsonb_agg(to_jsonb(h) ORDER BY h.claimed_at, h.run_id), '[]') FROM (
        SELECT r.run_id, r.job_id, r.attempt, r.fence, r.claimed_at, r.cancel_by IS NOT NULL AS cancel_requested FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = p.address
        ORDER BY r.claimed_at, r.run_id LIMIT 50) h) AS runs
FROM page p
ORDER BY p.address
