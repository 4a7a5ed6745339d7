SELECT farmhand.renamed_to($1) AS name
