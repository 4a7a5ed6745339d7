-- Only "<" is right: a run that changed since the snapshot is checked again with the node's row of the snapshot, when the run may
-- already be held by a newer session, which is then not below the number seen here.
-- A run that somebody has locked is passed over, or one such lock would keep all others of a dead node from being taken over.
-- It stays held by a session that is over, so nobody claims it, and is asked for again. Who needs all waits first (held_lock.sql).
WITH held AS MATERIALIZED (
    SELECT r AS run,
        -- Of what its holder has not started ($5) nothing has run.
        farmhand.goes_to(r.cancel_by IS NOT NULL, v.spec->>'on_lost', r.run_id <> ALL ($5), r.takeovers, $2) AS goes_to,
        CASE WHEN r.cancel_by IS NOT NULL THEN 'cancelled'
             WHEN v.spec->>'on_lost' = 'fail' THEN CASE WHEN $2 THEN 'holder lost' ELSE 'session closed' END
             ELSE 'poison' END AS why
    FROM farmhand.run_live r
    JOIN farmhand.node n ON n.address = r.running_at
    LEFT JOIN farmhand.job_revision v ON v.job_id = r.job_id AND v.rev = r.rev
    WHERE r.state = 'running' AND r.session < n.session
        AND ($1::text IS NULL OR r.running_at = $1)
        AND ($3::bigint IS NULL OR r.session = $3)
        -- A holder may always close; taking away needs open claims.
        AND (NOT $2 OR (SELECT e.open FROM farmhand.current_epoch e))
    ORDER BY r.run_id
    FOR UPDATE OF r SKIP LOCKED
), ended AS MATERIALIZED (
    SELECT count(*) FROM farmhand.end_runs(ARRAY(
        SELECT farmhand.ending(h.run, h.goes_to, CASE WHEN h.goes_to <> 'due' THEN h.why
                WHEN $2 THEN 'session ended' ELSE 'session closed' END, 'takeover', '{}', 'lost', $4,
            counts => CASE WHEN $2 THEN 'takeover' END)
        FROM held h))
)
SELECT (h.run).run_id, (h.run).job_id, (h.run).attempt, (h.run).running_at AS address, (h.run).session,
    (h.run).fence, (h.run).takeovers + ($2 AND h.goes_to = 'due')::int AS takeovers, h.goes_to AS "to"
FROM held h CROSS JOIN ended
