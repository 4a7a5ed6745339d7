SELECT farmhand.forget_audit($1) AS gone
