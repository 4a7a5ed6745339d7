WITH kept AS (
    -- Sessions that ended and whose runs are not free yet; rare.
    SELECT n.address, r.session FROM farmhand.node n
    CROSS JOIN LATERAL (SELECT DISTINCT r.session FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = n.address AND r.session < n.session LIMIT 10) r
    LIMIT 1000
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
        SELECT r.run_id, r.job_id, r.attempt, r.fence, r.claimed_at, r.cancel_by IS NOT NULL AS cancel_requested FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = p.address AND r.session = p.session
        ORDER BY r.run_id LIMIT 200) h) AS runs
FROM page p JOIN farmhand.node n ON n.address = p.address
ORDER BY p.address, p.session
