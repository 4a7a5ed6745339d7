SELECT j.rev, CASE WHEN farmhand.may_make('backfill', j.state, j.observe) = 'refuse' THEN j.state END AS refused
FROM farmhand.job j WHERE j.job_id = $1 AND NOT j.deleted FOR UPDATE
