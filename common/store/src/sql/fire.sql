SELECT * FROM farmhand.fire($1, $2)
