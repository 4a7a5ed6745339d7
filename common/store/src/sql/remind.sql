-- While claims are closed: whoever opens them must not give again what any agent has seen.
UPDATE farmhand.farm SET seen_epoch = greatest(seen_epoch, $2), seen_run = greatest(seen_run, $3)
WHERE farm_id = $1 AND (seen_epoch < $2 OR seen_run < $3)
RETURNING farm_id
