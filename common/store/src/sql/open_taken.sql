SELECT session, incarnation, renewals, ttl_ms, machine FROM farmhand.node
WHERE address = $1 AND open AND (SELECT e.open FROM farmhand.current_epoch e)
