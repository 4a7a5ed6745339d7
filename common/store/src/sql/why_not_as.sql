SELECT farmhand.why_not_as($1) AS why
