UPDATE farmhand.node SET session = session + 1, open = false, lost_at = clock_timestamp()
WHERE address = $1 AND session = $2 AND incarnation = $3 AND renewals = $4 AND open
    AND (SELECT e.open FROM farmhand.current_epoch e)
RETURNING address
