-- A clock that was set back does not make everybody wait for it.
UPDATE farmhand.notify_turn t SET at = statement_timestamp(), taken_by = $2
WHERE t.name = $1
    AND NOT (t.at > statement_timestamp() - $3 * interval '1 millisecond' AND t.at <= statement_timestamp())
RETURNING t.name
