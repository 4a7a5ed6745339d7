SELECT farmhand.unacknowledge($1, $2, $3) AS done
