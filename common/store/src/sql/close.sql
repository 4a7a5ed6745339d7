UPDATE farmhand.node SET session = session + 1, open = false
WHERE address = $1 AND session = $2 AND incarnation = $3 AND open
RETURNING address
