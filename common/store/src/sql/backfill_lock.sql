SELECT j.rev, j.enabled, j.observe FROM farmhand.job j WHERE j.job_id = $1 AND NOT j.deleted FOR UPDATE
