-- What became of a try. Delivered is delivered, whoever has the lease by now; anything else counts only for the try
-- that the row is at.
UPDATE farmhand.notification n
SET state = $3, error = $4,
    next_at = CASE WHEN $3 = 'waiting' THEN statement_timestamp() + $5 * interval '1 millisecond' ELSE n.next_at END,
    ended_at = CASE WHEN $3 <> 'waiting' THEN statement_timestamp() END
WHERE n.id = $1 AND n.state = 'waiting' AND ($3 = 'delivered' OR n.tries = $2)
RETURNING n.id
