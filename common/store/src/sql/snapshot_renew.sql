-- The holder's own renewal, or a challenge of exactly what was seen to stand still.
UPDATE farmhand.snapshot_lease SET holder = $3, address = $4, renewals = renewals + 1
WHERE holder = $3 OR (holder = $5 AND renewals = $6)
RETURNING renewals
