-- me: while this lock is held, the session cannot change, but can be renewed. It is taken before any
-- run is locked, because "pick" asks for it first (lock order: node, job, run).
-- Shards: for three seconds, which is longer than between two polls, each node leaves the others theirs, so that
-- they spread over the farm; a lost one is anybody's at once. The first rounds of a continuous job likewise; later ones
-- are anybody's at once too, and mostly stay where they were.
-- attempt: a run at the end of its numbers would fail every claim.
-- left_alone: what this node would not execute, while another might.
-- level: one index probe per priority in use, so that runs waiting for their time are never scanned.
WITH RECURSIVE me AS MATERIALIZED (
    SELECT n.address, n.session, n.labels, e.epoch,
        farmhand.left_to_others($1) AS left_alone
    FROM farmhand.node n
    JOIN farmhand.current_epoch e ON e.open
    WHERE n.address = $1 AND n.session = $2 AND n.incarnation = $3 AND n.open
        AND NOT n.cordoned AND NOT n.draining
    FOR KEY SHARE OF n
), level(priority) AS (
    (SELECT r.priority FROM farmhand.run_live r WHERE r.state = 'due' AND r.gate IS NULL
        ORDER BY r.priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT r.priority FROM farmhand.run_live r
        WHERE r.state = 'due' AND r.gate IS NULL AND r.priority < l.priority ORDER BY r.priority DESC LIMIT 1)
    FROM level l WHERE l.priority IS NOT NULL
), pick AS MATERIALIZED (
    SELECT c.run_id
    FROM level l
    CROSS JOIN LATERAL (
        SELECT r.run_id
        FROM farmhand.run_live r
        WHERE EXISTS (SELECT FROM me)
            AND r.state = 'due' AND r.gate IS NULL
            AND r.priority = l.priority AND r.ready_at <= statement_timestamp()
            AND ($5::bigint[] IS NULL OR r.run_id = ANY ($5))
            AND r.attempt < 1000000000 AND NOT farmhand.is_too_late(r)
            AND (r.node IS NULL OR r.node = $1)
            AND (r.node = $1 OR (SELECT m.left_alone = '{}' FROM me m)
                OR NOT r.rev || ' ' || r.job_id = ANY ((SELECT m.left_alone FROM me m)::text[]))
            AND (r.placement IS NULL OR (SELECT m.labels FROM me m) @> ANY (r.placement))
            AND (r.instances = 1 OR coalesce(r.firing, (r.made->>'spread')::bigint) IS NULL OR r.attempt > 0 OR r.ready_at <= statement_timestamp() - interval '3 seconds'
                -- Without labels the nodes are counted once, with labels for each shard.
                OR CASE WHEN r.placement IS NULL
                    THEN mod(r.instance + coalesce(r.firing, (r.made->>'spread')::bigint), ((SELECT farmhand.turn($1)))[2])
                        = ((SELECT farmhand.turn($1)))[1]
                    ELSE mod(r.instance + coalesce(r.firing, (r.made->>'spread')::bigint), (farmhand.turn($1, r.placement))[2])
                        = (farmhand.turn($1, r.placement))[1] END)
        ORDER BY r.priority DESC, r.ready_at, r.run_id
        LIMIT $4
        FOR NO KEY UPDATE OF r SKIP LOCKED
    ) c
    WHERE l.priority IS NOT NULL
    LIMIT $4
), won AS (
    UPDATE farmhand.run_live r
    SET state = 'running', running_at = me.address, session = me.session, attempt = r.attempt + 1,
        fence = me.epoch * 1099511627776 + nextval('farmhand.fence_seq'),
        claimed_at = clock_timestamp(), started_at = NULL, expires_at = NULL
    FROM me
    -- An array, because a join may be done by reading the whole table.
    WHERE r.run_id = ANY (ARRAY(SELECT p.run_id FROM pick p))
    RETURNING r.*
), spec AS MATERIALIZED (
    -- Once for all runs of a revision.
    SELECT d.*, v.spec, jsonb_typeof(v.spec->'stream') = 'object' AS is_stream,
        jsonb_typeof(v.spec->'flow') = 'object' AS is_flow
    FROM (SELECT min(w.run_id) AS run_id, w.job_id, w.rev FROM won w GROUP BY w.job_id, w.rev) d
    CROSS JOIN LATERAL (SELECT v.spec FROM farmhand.job_revision v
        WHERE v.job_id = d.job_id AND v.rev = d.rev LIMIT 1) v
)
SELECT w.run_id, w.job_id, w.rev, w.kind, w.instance, w.instances, w.node, w.due_at, w.ready_at, w.attempt, w.fence,
    w.retries, w.takeovers, w.priority, w.params, (w.made->>'parent_run')::bigint AS parent_run, w.made->'parents' AS parents, w.firing, w.reason, w.claimed_at, w.key,
    CASE WHEN v.run_id = w.run_id THEN v.spec END AS spec,
    (SELECT p.checkpoint FROM farmhand.progress p WHERE p.run_id = w.run_id) AS checkpoint,
    CASE WHEN v.is_stream THEN farmhand.stream_items(w.run_id) END AS items,
    CASE WHEN v.is_flow THEN farmhand.done_tasks(w.run_id, v.spec->>'resume') END AS done
FROM won w
LEFT JOIN spec v ON v.job_id = w.job_id AND v.rev = w.rev
ORDER BY w.priority DESC, w.ready_at, w.run_id
