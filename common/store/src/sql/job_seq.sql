UPDATE farmhand.job_seq SET seq = seq + 1 RETURNING seq
