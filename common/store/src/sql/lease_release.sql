SELECT farmhand.release($1, $2) AS own
