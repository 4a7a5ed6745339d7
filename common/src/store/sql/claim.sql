-- me: while this lock is held, the session cannot change, but can be renewed. It is taken before any
-- run is locked, because "pick" asks for it first (lock order: node, job, run).
-- Shards: for three seconds, which is longer than between two looks, each node leaves the others theirs, so that
-- they spread over the farm; a lost one is anybody's at once. The first rounds of a continuous job likewise; later ones
-- are anybody's at once too, and mostly stay where they were.
-- level: one index probe per priority in use, so that runs waiting for their time are never scanned.
WITH RECURSIVE me AS MATERIALIZED (
    SELECT n.address, n.session, n.labels
    FROM farmhand.node n
    WHERE n.address = $1 AND n.session = $2 AND n.life = $3 AND n.open
        AND NOT n.condemned AND NOT n.cordoned AND NOT n.draining
        AND EXISTS (SELECT FROM farmhand.timeline WHERE tli = farmhand.current_timeline())
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
            AND (r.node IS NULL OR r.node = $1)
            AND (r.placement IS NULL OR (SELECT m.labels FROM me m) @> r.placement)
            AND (r.instances = 1 OR coalesce(r.firing, r.spread) IS NULL OR r.attempt > 0 OR r.ready_at <= statement_timestamp() - interval '3 seconds'
                OR CASE WHEN r.placement IS NULL
                    -- Without labels the nodes are counted once, with labels for each shard.
                    THEN mod(r.instance + coalesce(r.firing, r.spread), greatest(1,
                            (SELECT count(*) FROM farmhand.node o WHERE o.state = 'ready')))
                        = (SELECT count(*) FROM farmhand.node o WHERE o.state = 'ready' AND o.address < $1)
                    ELSE mod(r.instance + coalesce(r.firing, r.spread), greatest(1,
                            (SELECT count(*) FROM farmhand.node o WHERE o.state = 'ready'
                                AND o.labels @> r.placement)))
                        = (SELECT count(*) FROM farmhand.node o WHERE o.state = 'ready' AND o.address < $1
                            AND o.labels @> r.placement) END)
        ORDER BY r.priority DESC, r.ready_at, r.run_id
        LIMIT $4
        FOR UPDATE OF r SKIP LOCKED
    ) c
    WHERE l.priority IS NOT NULL
    LIMIT $4
), won AS (
    UPDATE farmhand.run_live r
    SET state = 'running', running_at = me.address, session = me.session, attempt = r.attempt + 1,
        fence = farmhand.current_timeline() * 1099511627776 + nextval('farmhand.fence_seq'),
        claimed_at = clock_timestamp(), started_at = NULL
    FROM pick p, me
    WHERE r.run_id = p.run_id
    RETURNING r.*
)
SELECT w.run_id, w.job_id, w.rev, w.kind, w.instance, w.instances, w.due_at, w.ready_at, w.attempt, w.fence,
    w.retries, w.takeovers, w.priority, w.params, w.parent_run, w.parents, w.firing, w.reason, w.claimed_at, w.key,
    coalesce(v.spec, 'null') AS spec, p.checkpoint,
    CASE WHEN jsonb_typeof(v.spec->'stream') = 'object' THEN farmhand.stream_items(w.run_id) END AS items,
    -- Tasks of a flow that are not to run again; looked for in no other run.
    CASE WHEN jsonb_typeof(v.spec->'flow') = 'object' THEN (
        SELECT jsonb_agg(l.task)
        FROM (SELECT DISTINCT ON (t.task) t.task, t.outcome FROM farmhand.task t
            WHERE t.run_id = w.run_id AND (t.attempt = 0 OR v.spec->>'resume' = 'skip_finished')
            ORDER BY t.task, t.attempt DESC) l
        WHERE l.outcome = 'succeeded'
    ) END AS done
FROM won w
LEFT JOIN farmhand.job_revision v ON v.job_id = w.job_id AND v.rev = w.rev
LEFT JOIN farmhand.progress p ON p.run_id = w.run_id
ORDER BY w.priority DESC, w.ready_at, w.run_id
