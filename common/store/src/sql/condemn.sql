UPDATE farmhand.node SET condemned = true
WHERE address = $1 AND session = $2 AND life = $3 AND open
RETURNING address
