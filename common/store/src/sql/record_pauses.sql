-- What fell into the pauses of jobs, each by the revision that its job still has.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1) AS g(job_id text, until timestamptz, skipped json)
), decided AS (
    UPDATE farmhand.job j SET decided_until = greatest(j.decided_until, g.until)
    FROM given g WHERE j.job_id = g.job_id
)
INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, reason, ended_by,
    attempt, retries, takeovers, params, submitted_by, created_at, finished_at, first_due, last_due, count)
SELECT nextval('farmhand.run_id_seq'), j.job_id, j.rev, 'scheduled', 0, j.instances, s.first, s.first, 'skipped', s.reason,
    'schedule', 0, 0, 0, '{}', $2, statement_timestamp(), statement_timestamp(), s.first, s.last, s.count
FROM given g
JOIN farmhand.job j ON j.job_id = g.job_id
CROSS JOIN json_to_recordset(g.skipped) AS s(reason text, first timestamptz, last timestamptz, count bigint)
