-- Less than the agent has seen: this is not the database that it left.
UPDATE farmhand.epoch e SET server = 'closed ' || e.id
FROM farmhand.database d
WHERE e.id = $2 AND d.id = $2 AND d.farm_id = $1 AND d.open
    AND (d.epoch < $3 OR d.epoch = $3 AND (d.id <> $4 OR d.pulse < $5))
RETURNING e.epoch
