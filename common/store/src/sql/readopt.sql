-- The session that the warden serves, or nothing: never another one of the same number, and never a new row. Like a
-- renewal, it needs no open epoch.
WITH recorded AS (
    UPDATE farmhand.epoch SET longest_lease_ms = $5
    WHERE epoch = (SELECT e.epoch FROM farmhand.current_epoch e WHERE e.open) AND longest_lease_ms < $5
)
UPDATE farmhand.node AS n SET
    name = $4, renewals = n.renewals + 1, ttl_ms = greatest(n.ttl_ms, $5),
    lease_until = clock_timestamp() + greatest(n.ttl_ms, $5) * interval '1 millisecond',
    slots = $6, labels = $7, version = $8, leaving = $9,
    mark = greatest(n.mark, pg_current_xact_id()::text::bigint)
WHERE n.address = $1 AND n.session = $2 AND n.incarnation = $3 AND n.open
RETURNING n.session
