SELECT farmhand.settle_pending() AS job_id
