-- With whether cron was to run it, while the job observed.
SELECT r.due_at, bool_and(r.observed) AS observed FROM (
    SELECT r.due_at, false AS observed FROM farmhand.run_live r
    WHERE r.job_id = $1 AND r.due_at >= $2 AND r.due_at < $3 AND r.kind IN ('scheduled', 'backfill')
    UNION ALL
    SELECT r.due_at, r.state = 'skipped' FROM farmhand.run_history r
    WHERE r.job_id = $1 AND r.due_at >= $2 AND r.due_at < $3 AND r.kind IN ('scheduled', 'backfill')
        AND (r.state <> 'skipped' OR r.reason = 'observed')
) r
GROUP BY r.due_at
