-- $1: rows of each list; $2: a node that was lost so often within an hour is flapping. What is live only; "lease_until" is compared with the server's clock
-- for people only.
-- level: one index probe per priority in use, so that runs which wait for their time are never scanned.
WITH RECURSIVE level(priority) AS (
    (SELECT r.priority FROM farmhand.run_live r WHERE r.state = 'due' AND r.gate IS NULL
        ORDER BY r.priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT r.priority FROM farmhand.run_live r
        WHERE r.state = 'due' AND r.gate IS NULL AND r.priority < l.priority ORDER BY r.priority DESC LIMIT 1)
    FROM level l WHERE l.priority IS NOT NULL
), claimable AS (
    SELECT c.* FROM level l CROSS JOIN LATERAL (
        SELECT r.run_id, r.job_id, r.rev, r.node, r.placement, NULL::text AS gate,
            w.since AS ready_at
        FROM farmhand.run_live r CROSS JOIN LATERAL farmhand.waits_since(r.run_id, r.attempt, r.ready_at) w
        WHERE r.state = 'due' AND r.gate IS NULL AND r.priority = l.priority AND r.ready_at <= statement_timestamp()
        ORDER BY r.ready_at LIMIT 1000) c
    WHERE l.priority IS NOT NULL
    LIMIT 1000
), gated AS (
    -- Of each kind the one that has waited longest: a thousand runs of one job would hide those of the others.
    SELECT g.* FROM farmhand.waiting w
    CROSS JOIN LATERAL (
        SELECT r.run_id, r.job_id, r.rev, r.node, r.placement, r.gate, s.since AS ready_at FROM farmhand.run_live r
        CROSS JOIN LATERAL farmhand.waits_since(r.run_id, r.attempt, r.ready_at) s
        WHERE r.job_id = w.job_id AND r.rev = w.rev AND r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate')
            AND r.ready_at <= statement_timestamp()
        ORDER BY r.priority DESC, r.ready_at, r.run_id LIMIT 1) g
), waits AS (
    -- The oldest of each: what could be claimed and what waits at a gate.
    SELECT DISTINCT ON (w.gate IS NULL) w.* FROM (TABLE claimable UNION ALL TABLE gated) w
    ORDER BY w.gate IS NULL, w.ready_at, w.run_id
), seat AS MATERIALIZED (
    SELECT n.address, n.session, n.slots, n.labels, n.lease_until, n.lost_at, n.started_at,
        farmhand.shown_state(n) AS state
    FROM farmhand.node n
), late AS (
    SELECT j.job_id, j.next_run FROM farmhand.job j
    WHERE j.fires
        AND j.next_run < statement_timestamp() - interval '10 seconds'
    ORDER BY j.next_run, j.job_id LIMIT $1
), failing AS (
    SELECT s.job_id, s.consecutive_failures, s.last_state, s.last_finished, s.last_success
    FROM farmhand.job_stat s JOIN farmhand.job j ON j.job_id = s.job_id AND j.state = 'enabled'
    WHERE s.consecutive_failures > 0
    ORDER BY s.consecutive_failures DESC, s.job_id LIMIT $1
), gone AS (
    SELECT n.address, n.state, CASE n.state WHEN 'lost' THEN n.lost_at ELSE n.lease_until END AS since
    FROM seat n WHERE n.state IN ('lost', 'expired')
    ORDER BY since, n.address LIMIT $1
), stuck AS (
    SELECT r.run_id, r.job_id, r.running_at AS node, r.attempt, l.state, l.since
    FROM seat n
    JOIN farmhand.run_live r ON r.state = 'running' AND r.running_at = n.address
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
    WHERE l.since < statement_timestamp()
    ORDER BY l.since, r.run_id
    LIMIT $1
), flapping AS (
    SELECT e.address, e.times
    FROM (SELECT e.detail->>'expired' AS address, count(*) AS times
        FROM (SELECT e.at, e.detail FROM farmhand.event e
            WHERE e.kind = 'expired' AND e.at > statement_timestamp() - interval '1 hour' ORDER BY e.at DESC LIMIT 1000) e
        GROUP BY 1) e
    -- Of one that is away it is said that it is lost.
    JOIN seat s ON s.address = e.address AND s.state NOT IN ('lost', 'expired', 'closed')
    WHERE e.times >= $2
    ORDER BY e.times DESC, e.address
    LIMIT $1
), slow AS (
    SELECT r.run_id, r.job_id, r.running_at AS node, r.started_at, s.p95_ms, s.runs
    FROM farmhand.slow_run s
    JOIN farmhand.run_live r ON r.run_id = s.run_id AND r.attempt = s.attempt AND r.state = 'running'
    WHERE r.started_at IS NOT NULL
    ORDER BY r.started_at, r.run_id
    LIMIT $1
)
SELECT clock_timestamp() AS db_now,
    (SELECT coalesce(jsonb_agg(to_jsonb(l) ORDER BY l.next_run, l.job_id), '[]') FROM late l) AS overdue,
    (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.since, s.run_id), '[]') FROM stuck s) AS stuck,
    (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY f.times DESC, f.address), '[]') FROM flapping f) AS flapping,
    (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.started_at, s.run_id), '[]') FROM slow s) AS slow,
    (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY f.consecutive_failures DESC, f.job_id), '[]') FROM failing f) AS failing,
    (SELECT coalesce(jsonb_agg(to_jsonb(g) ORDER BY g.since, g.address), '[]') FROM gone g) AS lost,
    (SELECT coalesce(jsonb_agg(n.address ORDER BY n.address), '[]') FROM (
        SELECT n.address FROM seat n WHERE n.state = 'blocked' ORDER BY n.address LIMIT $1) n) AS blocked,
    (SELECT coalesce(jsonb_agg(to_jsonb(w) || jsonb_build_object('fits', EXISTS (SELECT FROM seat s WHERE s.state = 'ready'
            AND (w.node IS NULL OR s.address = w.node) AND (w.placement IS NULL OR s.labels @> ANY (w.placement))),
            -- Labels with their values. Whoever may write runs can store others, and no client could read the rest.
            'placement', CASE WHEN NOT to_jsonb(w.placement) @? 'strict $[*] ? (@.type() <> "object")'
                AND NOT to_jsonb(w.placement) @? 'strict $[*].* ? (@.type() <> "string")' THEN to_jsonb(w.placement) END)
            ORDER BY w.ready_at, w.run_id), '[]')
        FROM waits w) AS waits,
    (SELECT coalesce(jsonb_agg(to_jsonb(j) ORDER BY j.next_run, j.job_id), '[]') FROM (
        SELECT j.job_id, j.next_run FROM farmhand.job j
        WHERE j.fires
        ORDER BY j.next_run, j.job_id LIMIT $1) j) AS next,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r WHERE r.state = 'running' LIMIT 1000) r) AS running,
    (SELECT count(*) FROM claimable) AS due,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r WHERE r.gate = 'overlap' LIMIT 1000) g)
        + (SELECT count(*) FROM (SELECT FROM farmhand.run_live r
            WHERE r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate') LIMIT 1000) g) AS waiting,
    (SELECT coalesce(jsonb_object_agg(s.state, s.n), '{}')
        FROM (SELECT s.state, count(*) AS n FROM seat s GROUP BY s.state) s) AS nodes,
    (SELECT coalesce(sum(s.slots), 0)::bigint FROM seat s WHERE s.state = 'ready'
        OR EXISTS (SELECT FROM farmhand.run_live r WHERE r.state = 'running' AND r.running_at = s.address)) AS slots,
    (SELECT e.open FROM farmhand.current_epoch e) AS claims_open,
    EXISTS (SELECT FROM farmhand.job j WHERE NOT j.deleted) AS any_job
