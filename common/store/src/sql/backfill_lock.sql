SELECT j.rev, j.enabled FROM farmhand.job j WHERE j.job_id = $1 AND NOT j.deleted FOR UPDATE
