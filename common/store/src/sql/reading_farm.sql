-- $1: rows of each list. What is live only; "lease_until" is compared with the server's clock for people only.
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
            -- A run that was taken over or tried again waits from then on.
            CASE WHEN r.attempt > 0 THEN greatest(r.ready_at, (SELECT max(a.ended_at) FROM farmhand.attempt a
                WHERE a.run_id = r.run_id)) ELSE r.ready_at END AS ready_at
        FROM farmhand.run_live r
        WHERE r.state = 'due' AND r.gate IS NULL AND r.priority = l.priority AND r.ready_at <= statement_timestamp()
        ORDER BY r.ready_at LIMIT 1000) c
    WHERE l.priority IS NOT NULL
    LIMIT 1000
), gated AS (
    SELECT g.* FROM (SELECT r.run_id, r.job_id, r.rev, r.node, r.placement, r.gate, r.ready_at FROM farmhand.run_live r
        WHERE r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate') LIMIT 1000) g
    WHERE g.ready_at <= statement_timestamp()
), seat AS MATERIALIZED (
    SELECT n.address, n.session, n.slots, n.labels, n.lease_until, n.lost_at,
        farmhand.shown_state(n) AS state
    FROM farmhand.node n
), stuck AS (
    SELECT r.run_id, r.job_id, r.running_at AS node, r.attempt, l.state, l.since
    FROM seat n
    JOIN farmhand.run_live r ON r.state = 'running' AND r.running_at = n.address
    CROSS JOIN LATERAL (
        SELECT 'stalled' AS state, CASE WHEN n.lease_until < statement_timestamp() THEN n.lease_until
                ELSE r.claimed_at END + r.hold_ms * interval '1 millisecond' AS since
            WHERE r.session < n.session
        UNION ALL
        SELECT 'expired', n.lease_until
            WHERE r.session = n.session AND n.lease_until < statement_timestamp()
        UNION ALL
        SELECT 'overrun', r.claimed_at + r.hard_ms * interval '1 millisecond'
            WHERE r.session = n.session AND n.lease_until >= statement_timestamp()
        UNION ALL
        SELECT 'stalled', r.claimed_at + interval '5 seconds'
            WHERE r.session = n.session AND n.lease_until >= statement_timestamp() AND r.started_at IS NULL
    ) l
    WHERE l.since < statement_timestamp()
    ORDER BY l.since, r.run_id
    LIMIT $1
)
SELECT clock_timestamp() AS db_now,
    (SELECT coalesce(jsonb_agg(to_jsonb(o) ORDER BY o.next_run, o.job_id), '[]') FROM (
        SELECT j.job_id, j.next_run FROM farmhand.job j
        WHERE j.enabled AND j.scheduled AND NOT j.paused AND NOT j.deleted
            AND j.next_run < statement_timestamp() - interval '10 seconds'
        ORDER BY j.next_run, j.job_id LIMIT $1) o) AS overdue,
    (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.since, s.run_id), '[]') FROM stuck s) AS stuck,
    (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY f.consecutive_failures DESC, f.job_id), '[]') FROM (
        SELECT s.job_id, s.consecutive_failures, s.last_state, s.last_finished, s.last_success
        FROM farmhand.job_stat s JOIN farmhand.job j ON j.job_id = s.job_id AND farmhand.active(j)
        WHERE s.consecutive_failures > 0
        ORDER BY s.consecutive_failures DESC, s.job_id LIMIT $1) f) AS failing,
    (SELECT coalesce(jsonb_agg(to_jsonb(l) ORDER BY l.since, l.address), '[]') FROM (
        SELECT s.address, s.state, CASE s.state WHEN 'lost' THEN s.lost_at ELSE s.lease_until END AS since
        FROM seat s WHERE s.state IN ('lost', 'expired') ORDER BY 3, 1 LIMIT $1) l) AS lost,
    (SELECT to_jsonb(c) || jsonb_build_object('fits', EXISTS (SELECT FROM seat s WHERE s.state = 'ready'
            AND (c.node IS NULL OR s.address = c.node) AND (c.placement IS NULL OR s.labels @> c.placement)))
        FROM (SELECT * FROM claimable ORDER BY ready_at, run_id LIMIT 1) c) AS oldest_due,
    (SELECT to_jsonb(c) || jsonb_build_object('fits', EXISTS (SELECT FROM seat s WHERE s.state = 'ready'
            AND (c.node IS NULL OR s.address = c.node) AND (c.placement IS NULL OR s.labels @> c.placement)))
        FROM (SELECT * FROM gated ORDER BY ready_at, run_id LIMIT 1) c) AS oldest_gated,
    (SELECT coalesce(jsonb_agg(to_jsonb(j) ORDER BY j.next_run, j.job_id), '[]') FROM (
        SELECT j.job_id, j.next_run FROM farmhand.job j
        WHERE j.enabled AND j.scheduled AND NOT j.paused AND NOT j.deleted
        ORDER BY j.next_run, j.job_id LIMIT $1) j) AS next,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r WHERE r.state = 'running' LIMIT 1000) r) AS running,
    (SELECT count(*) FROM claimable) AS due,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r WHERE r.gate = 'overlap' LIMIT 1000) g)
        + (SELECT count(*) FROM (SELECT FROM farmhand.run_live r
            WHERE r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate') LIMIT 1000) g) AS waiting,
    (SELECT coalesce(jsonb_object_agg(s.state, s.n), '{}')
        FROM (SELECT s.state, count(*) AS n FROM seat s GROUP BY s.state) s) AS nodes,
    (SELECT coalesce(sum(s.slots), 0)::bigint FROM seat s WHERE s.state = 'ready') AS slots,
    (SELECT e.open FROM farmhand.current_epoch e) AS claims_open,
    EXISTS (SELECT FROM farmhand.job j WHERE NOT j.deleted) AS any_job
