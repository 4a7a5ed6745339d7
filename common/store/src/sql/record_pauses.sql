-- What fell into the pauses of jobs, each by the revision that its job still has.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1) AS g(job_id text, until timestamptz, skipped json)
), decided AS (
    UPDATE farmhand.job j SET decided_until = greatest(j.decided_until, g.until)
    FROM given g WHERE j.job_id = g.job_id
)
SELECT farmhand.write_ends(array_agg(jsonb_populate_record(
    farmhand.skipped(j.job_id, j.rev, 'scheduled', j.instances, NULL, s.first, s.last, s.count, s.reason),
    jsonb_build_object('submitted_by', $2))), lets_go => false)::text
FROM given g
JOIN farmhand.job j ON j.job_id = g.job_id
CROSS JOIN json_to_recordset(g.skipped) AS s(reason text, first timestamptz, last timestamptz, count bigint)
