-- The database's clock minus the node's, as the node measured it with its last renewal; NULL until it has. For people: no
-- decision hangs on it. Without an index, so that a renewal stays within its page.
ALTER TABLE farmhand.node ADD COLUMN clock_offset_ms bigint;
