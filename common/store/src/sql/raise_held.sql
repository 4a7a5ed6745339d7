-- Whoever has seen this timeline for W and that long says so: no attempt with such a hold can live whose claim a failover lost.
UPDATE farmhand.timeline SET held_ms = greatest(held_ms, $2)
WHERE tli = $1 AND farmhand.current_timeline() = $1
RETURNING held_ms
