SELECT farmhand.trim_history($1, $2, $3, $4) AS gone
