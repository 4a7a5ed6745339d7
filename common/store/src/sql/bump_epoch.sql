-- Nobody has waited for the leases of the one before, so it takes over how long they are.
-- It names no server, so it is never open: an agent that has watched it for the longest lease opens the next one above it.
WITH bumped AS (
    INSERT INTO farmhand.epoch (epoch, server, follows, system_id, opened_by, longest_lease_ms)
    SELECT greatest(d.epoch, least(greatest(f.seen_epoch, $2), d.epoch + 1000)) + 1, 'bumped ' || gen_random_uuid(), d.id,
        farmhand.system_id(), $3, d.longest_lease_ms
    FROM farmhand.database d CROSS JOIN farmhand.farm f
    WHERE d.id = $1
    ON CONFLICT DO NOTHING
    RETURNING epoch
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, detail)
    SELECT statement_timestamp(), 'epoch_bumped', 'warning', jsonb_build_object('by', $3::text, 'epoch', b.epoch) FROM bumped b
)
SELECT b.epoch FROM bumped b
