SELECT farmhand.move_runs($1) AS moved
