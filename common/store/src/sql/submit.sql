SELECT farmhand.submit($1, $2, coalesce($3, statement_timestamp()), $4) AS run_id
