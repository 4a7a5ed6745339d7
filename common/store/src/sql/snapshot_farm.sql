-- The farm at one instant. Reads what is live, never the history. "lease_until" may be compared with the
-- server's clock here: it was written by it, and nothing but a number on a screen hangs on it.
-- Nothing can be subtracted from times that are not finite, and whoever may write runs can store them.
WITH queue AS (
    SELECT CASE WHEN r.state = 'running' THEN 'running' WHEN r.gate IS NOT NULL THEN r.gate
            WHEN r.ready_at > statement_timestamp() THEN 'delayed' ELSE 'due' END AS state,
        count(*) AS n,
        min(w.since) FILTER (WHERE r.state = 'due' AND isfinite(r.ready_at)) AS oldest
    FROM farmhand.run_live r CROSS JOIN LATERAL farmhand.waits_since(r.run_id, r.attempt, r.ready_at) w GROUP BY 1
), seat AS (
    SELECT n.address, n.lost_at,
        farmhand.shown_state(n) AS state
    FROM farmhand.node n
), held AS MATERIALIZED (
    -- The instant since when a lease is not as it should be; NULL for one that is.
    SELECT r.job_id, r.running_at AS node, l.state, l.since
    FROM farmhand.run_live r
    JOIN farmhand.node n ON n.address = r.running_at
    CROSS JOIN LATERAL (
        SELECT 'stalled' AS state, CASE WHEN n.lease_until < statement_timestamp() THEN n.lease_until
                ELSE greatest(r.claimed_at, n.started_at, n.lost_at) END AS since
            WHERE r.session < n.session
        UNION ALL
        SELECT 'expired', n.lease_until
            WHERE r.session = n.session AND n.lease_until < statement_timestamp()
        UNION ALL
        SELECT 'overrun', r.claimed_at + r.hard_ms * interval '1 millisecond'
            -- One that never started is stalled, and nothing else.
            WHERE r.session = n.session AND n.lease_until >= statement_timestamp() AND r.started_at IS NOT NULL
        UNION ALL
        SELECT 'stalled', r.claimed_at + interval '5 seconds'
            WHERE r.session = n.session AND n.lease_until >= statement_timestamp() AND r.started_at IS NULL
    ) l
    WHERE r.state = 'running' AND l.since < statement_timestamp()
), stuck AS (
    SELECT h.job_id, h.node, h.state, extract(epoch FROM statement_timestamp() - min(h.since))::float8 AS age
    FROM held h WHERE isfinite(h.since) GROUP BY h.job_id, h.node, h.state ORDER BY 4 DESC, 1, 2, 3 LIMIT $1
), slow AS MATERIALIZED (
    SELECT r.job_id, extract(epoch FROM statement_timestamp() - r.started_at)::float8 AS age
    FROM farmhand.slow_run s
    JOIN farmhand.run_live r ON r.run_id = s.run_id AND r.attempt = s.attempt AND r.state = 'running'
    WHERE isfinite(r.started_at)
), missing AS (
    SELECT s.address, extract(epoch FROM statement_timestamp() - s.lost_at)::float8 AS age
    FROM seat s WHERE s.state = 'lost' AND isfinite(s.lost_at) ORDER BY 2, 1 LIMIT $1
)
SELECT extract(epoch FROM statement_timestamp())::float8 AS at,
    (SELECT coalesce(jsonb_object_agg(s.state, s.n), '{}')
        FROM (SELECT s.state, count(*) AS n FROM seat s GROUP BY s.state) s) AS nodes,
    (SELECT coalesce(jsonb_object_agg(q.state, q.n), '{}') FROM queue q) AS queue,
    (SELECT e.open FROM farmhand.current_epoch e) AS claims_open,
    coalesce((SELECT extract(epoch FROM statement_timestamp() - q.oldest) FROM queue q WHERE q.state = 'due' AND isfinite(q.oldest)),
        0)::float8
        AS oldest_due_age,
    coalesce((SELECT extract(epoch FROM statement_timestamp() - min(n.created_at)) FROM farmhand.notification n
        WHERE n.state = 'waiting' AND n.topic <> 'test'), 0)::float8 AS oldest_notification_age,
    (SELECT coalesce(jsonb_object_agg(h.state, h.n), '{}')
        FROM (SELECT h.state, count(*) AS n FROM held h GROUP BY h.state) h) AS unhealthy,
    (SELECT coalesce(jsonb_agg(s), '[]') FROM stuck s) AS stuck,
    (SELECT coalesce(jsonb_agg(m), '[]') FROM missing m) AS missing,
    (SELECT count(*) FROM slow) AS slow_runs,
    (SELECT coalesce(jsonb_agg(s), '[]') FROM (SELECT s.job_id, max(s.age) AS age FROM slow s
        GROUP BY s.job_id ORDER BY 2 DESC, 1 LIMIT $1) s) AS slow,
    (SELECT coalesce(jsonb_object_agg(t.relname, t.n_dead_tup), '{}') FROM pg_stat_user_tables t
        WHERE t.schemaname = 'farmhand' AND t.relname IN ('run_live', 'node', 'job')) AS dead_rows
