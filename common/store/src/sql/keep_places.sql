SELECT farmhand.keep_places($1) AS kept
