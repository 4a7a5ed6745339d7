DELETE FROM farmhand.restriction r WHERE r.kind = 'login' AND r.name = $1 RETURNING r.name
