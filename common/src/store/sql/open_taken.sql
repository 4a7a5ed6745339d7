SELECT session, life, beat FROM farmhand.node
WHERE address = $1 AND open AND EXISTS (SELECT FROM farmhand.timeline WHERE tli = farmhand.current_timeline())
