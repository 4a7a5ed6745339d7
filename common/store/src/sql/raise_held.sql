-- Whoever has watched this epoch for W and that long says so: no attempt with such a hold can live that it does not know.
UPDATE farmhand.epoch SET held_ms = greatest(held_ms, $2)
WHERE id = (SELECT e.id FROM farmhand.current_epoch e WHERE e.id = $1 AND e.open)
RETURNING held_ms
