UPDATE farmhand.job j SET next_run = $2, scheduled = $2::timestamptz IS NOT NULL WHERE j.job_id = $1
RETURNING j.job_id
