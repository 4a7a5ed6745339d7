-- The holder's own renewal, or a challenge of exactly what was seen to stand still. The rest of the transaction
-- is bounded on the server too: a dropped connection would leave a long statement running there.
UPDATE farmhand.snapshot_lease SET holder = $1, address = $2, renewals = renewals + 1
WHERE holder = $1 OR (holder = $3 AND renewals = $4)
RETURNING renewals, set_config('statement_timeout', $5, true) AS bound
