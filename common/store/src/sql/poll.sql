-- Said by every agent every few seconds, and planned once: each join is one that cannot be done by reading a whole table.
WITH RECURSIVE self AS (
    SELECT labels, cordoned, draining, drain_until, leaving FROM farmhand.node WHERE address = $1
), snapshot AS MATERIALIZED (
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax
), lease(ttl_ms) AS (
    (SELECT n.ttl_ms FROM farmhand.node n WHERE n.open ORDER BY n.ttl_ms LIMIT 1)
    UNION ALL
    SELECT (SELECT n.ttl_ms FROM farmhand.node n WHERE n.open AND n.ttl_ms > l.ttl_ms ORDER BY n.ttl_ms LIMIT 1)
    FROM lease l WHERE l.ttl_ms IS NOT NULL
), mark AS MATERIALIZED (
    -- Not xmax alone: a server that crashed may give numbers again that nobody's commit has made durable.
    SELECT least(max(m.newest) + 1, (SELECT x.xmax FROM snapshot x)) AS above, min(l.ttl_ms) AS shortest
    FROM lease l CROSS JOIN LATERAL (SELECT n.mark AS newest FROM farmhand.node n
        WHERE n.open AND n.ttl_ms = l.ttl_ms ORDER BY n.mark DESC LIMIT 1) m
), silent AS MATERIALIZED (
    SELECT s.* FROM lease l CROSS JOIN LATERAL (
        (SELECT n.* FROM farmhand.node n WHERE n.open AND n.ttl_ms = l.ttl_ms
            AND n.mark < ($4::bigint[])[1 + width_bucket(l.ttl_ms, $3::bigint[])] ORDER BY n.mark LIMIT 1000)
        UNION ALL
        -- No renewal of this server: such a node is watched by its renewals.
        (SELECT n.* FROM farmhand.node n WHERE n.open AND n.ttl_ms = l.ttl_ms
            AND n.mark >= (SELECT x.xmax FROM snapshot x)
            -- Of many, each agent the next ones by address, so that each of them is watched.
            ORDER BY n.address <= $1, n.address LIMIT 1000)) s
    WHERE s.address <> $1
), level(priority) AS (
    (SELECT r.priority FROM farmhand.run_live r WHERE r.state = 'due' AND r.gate IS NULL
        ORDER BY r.priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT r.priority FROM farmhand.run_live r
        WHERE r.state = 'due' AND r.gate IS NULL AND r.priority < l.priority ORDER BY r.priority DESC LIMIT 1)
    FROM level l WHERE l.priority IS NOT NULL
)
SELECT clock_timestamp() AS db_now,
    (SELECT to_jsonb(d) FROM farmhand.database d) AS database,
    (SELECT m.above FROM mark m) AS above,
    (SELECT m.shortest FROM mark m) AS shortest_ttl_ms,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('address', s.address, 'session', s.session, 'incarnation', s.incarnation,
            'renewals', s.renewals, 'mark', s.mark, 'ttl_ms', s.ttl_ms)), '[]') FROM silent s) AS silent,
    ARRAY(SELECT n.address FROM farmhand.node n WHERE n.state = 'ready' ORDER BY n.address LIMIT 512)
        AS live_addresses,
    (SELECT seq FROM farmhand.job_seq) AS job_seq,
    (SELECT min(c.ready_at) FROM level l CROSS JOIN LATERAL (
        SELECT r.ready_at FROM farmhand.run_live r
        WHERE r.state = 'due' AND r.gate IS NULL AND r.priority = l.priority AND NOT farmhand.is_too_late(r)
            AND (r.node IS NULL OR r.node = $1)
            AND (r.placement IS NULL OR (SELECT s.labels FROM self s) @> ANY (r.placement))
        ORDER BY r.ready_at LIMIT 1) c) AS earliest_ready,
    (SELECT min(j.next_run) FROM farmhand.job j
        WHERE j.fires) AS earliest_next_run,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('run_id', r.run_id, 'attempt', r.attempt, 'by', r.cancel_by)),
            '[]')
        FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = $1 AND r.session = $2 AND r.cancel_by IS NOT NULL) AS cancels,
    EXISTS (SELECT FROM farmhand.triggering t WHERE t.ready_at <= statement_timestamp())
        OR EXISTS (SELECT FROM farmhand.pending p WHERE p.look_at <= statement_timestamp()) AS unsettled,
    coalesce((SELECT cordoned FROM self), false) AS cordoned,
    coalesce((SELECT draining FROM self), false) AS draining,
    (SELECT drain_until FROM self) AS drain_until,
    coalesce((SELECT leaving FROM self), false) AS leaving,
    EXISTS (SELECT FROM farmhand.need) AS gates,
    CASE WHEN EXISTS (SELECT FROM farmhand.notify_edge) THEN (SELECT t.at FROM farmhand.notify_turn t
        WHERE t.name = 'deadlines') END AS watched_at,
    EXISTS (SELECT FROM farmhand.notify_note) OR EXISTS (SELECT FROM farmhand.notification n
        WHERE n.state = 'waiting' AND n.next_at <= statement_timestamp()) AS to_tell,
    CASE WHEN EXISTS (SELECT FROM farmhand.need) THEN farmhand.gated_at($1) END AS gated_at,
    CASE WHEN EXISTS (SELECT FROM farmhand.need) THEN farmhand.awaited_leases() END AS awaited_leases
