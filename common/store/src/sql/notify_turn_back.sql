-- An agent that could not do what the turn is for gives it to the next one that asks.
UPDATE farmhand.notify_turn t SET at = '-infinity'
WHERE t.name = $1 AND t.taken_by = $2
RETURNING t.name
