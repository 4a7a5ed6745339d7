-- Who exposes the farm looks for missed deadlines as well, where somebody wants to hear of them.
UPDATE farmhand.notify_turn t SET at = statement_timestamp(), taken_by = $4
FROM renewed
WHERE t.name = 'deadlines' AND EXISTS (SELECT FROM farmhand.notify_edge)
    AND NOT (t.at > statement_timestamp() - $9 * interval '1 millisecond' AND t.at <= statement_timestamp())
RETURNING t.name
