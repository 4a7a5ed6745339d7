SELECT $1::text AS address FROM farmhand.unbind_node($1) AS was WHERE was
