SELECT run_id, runs, skipped, live FROM farmhand.submit_run($1, $2, statement_timestamp(), $3, $4, $5)
