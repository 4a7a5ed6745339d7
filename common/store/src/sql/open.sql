-- ttl_ms: a warden's deadline never moves back, so what challengers wait for only grows within a session.
-- $8: no session of this address that the agent remembers is given again, though a restored database may not know it.
-- The conflict's own session number stays when this incarnation opened it: the reply was lost.
WITH recorded AS (
    UPDATE farmhand.epoch SET longest_lease_ms = $4
    WHERE epoch = (SELECT e.epoch FROM farmhand.current_epoch e WHERE e.open) AND longest_lease_ms < $4
)
INSERT INTO farmhand.node AS n (address, name, session, incarnation, open, renewals, ttl_ms, lease_until, slots, labels,
    version, started_at, mark, machine)
SELECT $1, $2, $8 + 1, $3, true, 1, $4, clock_timestamp() + $4 * interval '1 millisecond', $5, $6, $7, clock_timestamp(),
    pg_current_xact_id()::text::bigint, $9
WHERE (SELECT e.open FROM farmhand.current_epoch e)
ON CONFLICT (address) DO UPDATE SET
    session = CASE WHEN n.open THEN n.session ELSE greatest(n.session, $8) + 1 END, lost_at = NULL, leaving = false,
    started_at = CASE WHEN n.open THEN n.started_at ELSE excluded.started_at END,
    name = excluded.name, incarnation = excluded.incarnation, open = true, renewals = n.renewals + 1,
    mark = CASE WHEN n.open THEN greatest(n.mark, excluded.mark) ELSE excluded.mark END,
    ttl_ms = CASE WHEN n.open THEN greatest(n.ttl_ms, excluded.ttl_ms) ELSE excluded.ttl_ms END,
    lease_until = excluded.lease_until, slots = excluded.slots, labels = excluded.labels,
    version = excluded.version, machine = excluded.machine
WHERE NOT n.open OR n.incarnation = excluded.incarnation
RETURNING n.session
