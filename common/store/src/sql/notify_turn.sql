-- A clock that was set back does not make everybody wait for it. Nor does who has just taken it, and reads the farm or is frozen.
UPDATE farmhand.notify_turn t SET at = statement_timestamp(), taken_by = $2
WHERE t.name = (SELECT n.name FROM farmhand.notify_turn n
    WHERE n.name = $1
        AND NOT (n.at > statement_timestamp() - $3 * interval '1 millisecond' AND n.at <= statement_timestamp())
    FOR UPDATE SKIP LOCKED)
RETURNING t.name
