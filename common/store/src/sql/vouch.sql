-- The same place of the same cluster, started again: an agent that was here moments before the end finds its latest renewal.
-- To say it after another agent changes nothing. Pulses that it missed are few; else it might be a copy that was taken since, and others have seen more.
UPDATE farmhand.epoch e SET server = d.server
FROM farmhand.database d
WHERE e.id = $1 AND d.id = $1
    AND split_part(e.server, ' ', 2) = split_part(d.server, ' ', 2)
    AND e.system_id IS NOT DISTINCT FROM farmhand.system_id()
    AND d.pulse BETWEEN $2 AND $2 + 3 AND d.fence >= $7
    AND EXISTS (SELECT FROM farmhand.node n WHERE n.address = $3
        AND (n.session > $4 OR n.session = $4 AND n.incarnation = $5 AND n.renewals >= $6))
RETURNING e.epoch
