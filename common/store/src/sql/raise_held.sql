-- Whoever has watched this epoch for W and that long says so: no attempt with such a hold can live that it does not know.
UPDATE farmhand.epoch SET held_ms = greatest(held_ms, $2)
WHERE id = $1 AND server = (SELECT farmhand.server())
RETURNING held_ms
