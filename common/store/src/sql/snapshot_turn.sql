-- The agent that reads the farm's gauges also looks for missed deadlines, where somebody subscribed to them, unless $9 is NULL. It does not
-- wait for an agent that is doing so: the gauges would wait, too.
UPDATE farmhand.notify_turn t SET at = statement_timestamp(), taken_by = $4
WHERE t.name = (SELECT n.name FROM farmhand.notify_turn n
    WHERE n.name = 'deadlines' AND $9 IS NOT NULL AND EXISTS (SELECT FROM renewed)
        AND EXISTS (SELECT FROM farmhand.notify_edge)
        AND NOT (n.at > statement_timestamp() - $9 * interval '1 millisecond' AND n.at <= statement_timestamp())
    FOR UPDATE SKIP LOCKED)
RETURNING t.name
