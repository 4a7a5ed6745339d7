DELETE FROM farmhand.run_log WHERE run_id = $1 AND attempt = $2 AND seq >= $3 AND seq < $4
