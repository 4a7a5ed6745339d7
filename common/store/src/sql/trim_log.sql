-- Nothing of a run that is over, or whose next attempt has begun: an agent may not, and would be refused for ever.
DELETE FROM farmhand.run_log WHERE run_id = $1 AND attempt = $2 AND seq >= $3 AND seq < $4
    AND NOT EXISTS (SELECT FROM farmhand.run_history h WHERE h.run_id = $1)
    AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id = $1 AND r.attempt > $2)
