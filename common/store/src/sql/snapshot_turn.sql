-- Who exposes the farm looks for missed deadlines as well, where somebody wants to hear of them. $9: NULL leaves that to others.
UPDATE farmhand.notify_turn t SET at = statement_timestamp(), taken_by = $4
FROM renewed
WHERE t.name = 'deadlines' AND $9 IS NOT NULL AND EXISTS (SELECT FROM farmhand.notify_edge)
    AND NOT (t.at > statement_timestamp() - $9 * interval '1 millisecond' AND t.at <= statement_timestamp())
RETURNING t.name
