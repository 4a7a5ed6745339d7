-- recorded: how long another server is watched; a row is written only when a longer lease comes.
-- advanced: by the first of those that know the same pulse. It waits for nobody.
-- The mark never goes back: a renewal that a later one of this session overtook must not make that one seem older.
WITH recorded AS (
    UPDATE farmhand.epoch SET longest_lease_ms = $4
    WHERE epoch = (SELECT e.epoch FROM farmhand.current_epoch e WHERE e.open) AND longest_lease_ms < $4
), advanced AS (
    UPDATE farmhand.farm f SET pulse = f.pulse + 1
    FROM (SELECT l.one FROM farmhand.farm l WHERE l.pulse = $6 FOR UPDATE SKIP LOCKED) l WHERE f.one = l.one
    RETURNING f.pulse
), me AS (
    UPDATE farmhand.node
    SET renewals = renewals + 1, lease_until = clock_timestamp() + greatest(ttl_ms, $4) * interval '1 millisecond',
        ttl_ms = greatest(ttl_ms, $4),
        clock_offset_ms = $5, cannot_start = $7,
        mark = greatest(mark, pg_current_xact_id()::text::bigint)
    WHERE address = $1 AND session = $2 AND incarnation = $3 AND open
    RETURNING renewals, cordoned, draining, drain_until
)
SELECT me.renewals, me.cordoned, me.draining, me.drain_until, clock_timestamp() AS db_now, (SELECT to_jsonb(d) || coalesce((SELECT to_jsonb(b) FROM advanced b), '{}') FROM farmhand.database d) AS database,
    (SELECT coalesce(jsonb_agg(jsonb_build_object(
            'run_id', r.run_id, 'attempt', r.attempt, 'fence', r.fence, 'cancel', r.cancel_by IS NOT NULL)), '[]')
        FROM farmhand.run_live r
        WHERE r.state = 'running' AND r.running_at = $1 AND r.session = $2) AS held
FROM me
