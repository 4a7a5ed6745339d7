-- As expire.sql, at whatever heartbeat the session is: a person answers for what it runs.
UPDATE farmhand.node SET session = session + 1, open = false, lost_at = clock_timestamp()
WHERE address = $1 AND session = $2 AND open
    AND (SELECT e.open FROM farmhand.current_epoch e)
RETURNING address
