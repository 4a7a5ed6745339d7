-- $1: rows of each list. One statement, so that the lists fit each other.
WITH queue AS (
    SELECT count(*) FILTER (WHERE state = 'running') AS running,
        count(*) FILTER (WHERE state = 'due' AND gate IS NULL AND ready_at <= statement_timestamp()) AS due,
        count(*) FILTER (WHERE state = 'due' AND (gate IS NOT NULL OR ready_at > statement_timestamp())) AS waiting,
        min(ready_at) FILTER (WHERE state = 'due' AND gate IS NULL AND ready_at <= statement_timestamp())
            AS oldest_ready
    FROM farmhand.run_live
), held AS (
    SELECT r.running_at, r.session, count(*) AS running FROM farmhand.run_live r
    WHERE r.state = 'running' GROUP BY r.running_at, r.session
)
SELECT clock_timestamp() AS db_now, q.running, q.due, q.waiting, q.oldest_ready,
    (SELECT coalesce(sum(slots), 0)::bigint FROM farmhand.node WHERE open) AS slots,
    (SELECT count(*) FROM farmhand.node WHERE open) AS open_nodes,
    (SELECT coalesce(jsonb_agg(to_jsonb(n) ORDER BY n.open DESC, n.address), '[]') FROM (
        SELECT n.address, farmhand.shown_state(n) AS state, n.open, n.session, n.slots, coalesce(h.running, 0) AS running, n.lease_until,
            n.ttl_ms, n.drain_until, n.labels, n.version
        FROM farmhand.node n LEFT JOIN held h ON h.running_at = n.address AND h.session = n.session
        ORDER BY n.open DESC, n.address LIMIT $1) n) AS nodes,
    (SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY r.claimed_at, r.run_id), '[]') FROM (
        SELECT r.run_id, r.job_id, r.kind, r.attempt, r.running_at AS node, r.session, r.claimed_at, r.started_at,
            r.cancel_requested
        FROM farmhand.run_live r WHERE r.state = 'running' ORDER BY r.claimed_at, r.run_id LIMIT $1) r) AS runs,
    (SELECT coalesce(jsonb_agg(to_jsonb(d) - 'nth' ORDER BY d.nth), '[]') FROM (
        SELECT r.run_id, r.job_id, r.kind, r.node, r.due_at, r.ready_at, r.gate, r.reason, r.priority,
            row_number() OVER (ORDER BY r.gate IS NOT NULL, r.ready_at > statement_timestamp(), r.priority DESC,
                r.ready_at, r.run_id) AS nth
        FROM farmhand.run_live r WHERE r.state = 'due' ORDER BY nth LIMIT $1) d) AS queue,
    (SELECT coalesce(jsonb_agg(to_jsonb(j) ORDER BY j.next_run, j.job_id), '[]') FROM (
        SELECT j.job_id, j.next_run FROM farmhand.job j
        WHERE j.enabled AND j.scheduled AND NOT j.paused AND NOT j.deleted
        ORDER BY j.next_run, j.job_id LIMIT least($1, 20)) j) AS next,
    (SELECT e.open FROM farmhand.current_epoch e) AS claims_open
FROM queue q
