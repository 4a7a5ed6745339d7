WITH kept AS (
    -- Sessions that ended while runs with "hold" live on; rare.
    SELECT r.running_at AS address, r.session FROM farmhand.run_live r
    JOIN farmhand.node n ON n.address = r.running_at AND r.session < n.session
    WHERE r.state = 'running' AND r.hold_ms > 0
    GROUP BY r.running_at, r.session LIMIT 1000
), page AS (
    SELECT l.address, l.session FROM (
        SELECT n.address, n.session FROM farmhand.node n WHERE n.open
        UNION SELECT k.address, k.session FROM kept k) l
    WHERE $1::text IS NULL OR (l.address, l.session) > ($1, $2::bigint)
    ORDER BY l.address, l.session LIMIT $3
)
SELECT p.address, p.session, n.open AND n.session = p.session AS open,
    CASE WHEN n.session = p.session THEN farmhand.shown_state(n) ELSE 'closed' END AS state, n.lease_until, n.ttl_ms,
    (SELECT coalesce(jsonb_agg(to_jsonb(h) ORDER BY h.run_id), '[]') FROM (
        SELECT r.run_id, r.job_id, r.attempt, r.fence, r.claimed_at, r.cancel_requested FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = p.address AND r.session = p.session
        ORDER BY r.run_id LIMIT 200) h) AS runs
FROM page p JOIN farmhand.node n ON n.address = p.address
ORDER BY p.address, p.session
