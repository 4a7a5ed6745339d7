SELECT state FROM farmhand.run_history WHERE run_id = $1
