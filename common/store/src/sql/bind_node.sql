SELECT $1::text AS address FROM farmhand.bind_node($1, $2, $3)
