SELECT farmhand.acknowledge($1, $2, $3, $4 * interval '1 second', $5) AS until
