SELECT session, life, beat, ttl_ms FROM farmhand.node
WHERE address = $1 AND open AND EXISTS (SELECT FROM farmhand.epoch WHERE server = (SELECT farmhand.server()))
