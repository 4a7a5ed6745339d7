-- Only "<" is right: a run that changed since the snapshot is checked again with the node's row of the snapshot, when the run may
-- already be held by a newer session, which is then not below the number seen here.
-- A run that somebody has locked is passed over, or one such lock would keep all others of a dead node from being taken over.
-- It stays held by a session that is over, so nobody claims it, and is asked for again. Who needs all waits first (held_lock.sql).
WITH held AS MATERIALIZED (
    SELECT r AS run,
        -- Of what its holder has not started ($5) nothing has run.
        farmhand.goes_to(r.cancel_requested, r.on_lost, r.run_id <> ALL ($5), r.takeovers, $2) AS goes_to,
        CASE WHEN r.cancel_requested THEN 'cancelled'
             WHEN r.on_lost = 'fail' THEN CASE WHEN $2 THEN 'holder lost' ELSE 'session closed' END
             ELSE 'poison' END AS why
    FROM farmhand.run_live r
    JOIN farmhand.node n ON n.address = r.running_at
    WHERE r.state = 'running' AND r.session < n.session
        AND ($1::text IS NULL OR r.running_at = $1)
        AND ($3::bigint IS NULL OR r.session = $3)
        -- A holder may always close; taking away needs open claims.
        AND (NOT $2 OR (SELECT e.open FROM farmhand.current_epoch e))
    ORDER BY r.run_id
    FOR UPDATE OF r SKIP LOCKED
), gone AS (
    DELETE FROM farmhand.run_live r USING held h WHERE r.run_id = (h.run).run_id AND h.goes_to <> 'due'
    RETURNING h.run, h.goes_to, h.why
), again AS (
    -- ready_at stays: a server clock that steps back must not make a taken-over run wait.
    UPDATE farmhand.run_live r
    SET state = 'due', running_at = NULL, session = NULL, takeovers = r.takeovers + $2::int,
        reason = $4
    FROM held h WHERE r.run_id = (h.run).run_id AND h.goes_to = 'due'
    RETURNING h.run
), written AS MATERIALIZED (
    SELECT farmhand.write_ends(
        (SELECT array_agg(k) FROM gone g CROSS JOIN LATERAL farmhand.ended(g.run, g.goes_to, g.why, 'takeover') k),
        (SELECT array_agg(farmhand.past(a.run, 'lost', CASE WHEN $2 THEN 'session ended' ELSE 'session closed' END, 'takeover'))
            FROM again a))
)
SELECT (h.run).run_id, (h.run).job_id, (h.run).attempt, (h.run).running_at AS address, (h.run).session,
    (h.run).fence, (h.run).takeovers + ($2 AND h.goes_to = 'due')::int AS takeovers, h.goes_to AS "to",
    CASE WHEN row_number() OVER () = 1 THEN pg_notify('farmhand',
        json_build_object('due', (h.run).run_id, 'job', (h.run).job_id)::text)::text END AS note
FROM held h CROSS JOIN written
