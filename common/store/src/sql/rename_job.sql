SELECT farmhand.rename_job($1, $2, $3, $4, $5) AS renamed
