UPDATE farmhand.snapshot_lease
SET holder = '00000000-0000-0000-0000-000000000000', address = '', renewals = renewals + 1
WHERE holder = $1
RETURNING renewals
