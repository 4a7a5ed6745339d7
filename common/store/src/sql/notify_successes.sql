-- When these jobs last succeeded. The rows stay locked until the episode is there: a later success finds it, and leaves a note.
SELECT s.job_id, s.last_success FROM farmhand.job_stat s WHERE s.job_id = ANY ($1) ORDER BY s.job_id FOR UPDATE
