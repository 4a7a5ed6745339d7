-- What waits of these jobs, which the transaction has locked and which are deleted or made anew, ends by $2. Rounds of continuous
-- jobs are taken away with the others that are not wanted (rounds.sql).
WITH target AS MATERIALIZED (
    SELECT r AS run FROM farmhand.run_live r
    WHERE r.job_id = ANY ($1) AND r.state = 'due' AND NOT (r.kind = 'continuous' AND r.attempt = 0)
    ORDER BY r.run_id FOR UPDATE
), ended AS MATERIALIZED (
    SELECT count(*) FROM farmhand.end_runs(ARRAY(
        SELECT farmhand.ending(t.run, 'cancelled', 'withdrawn', 'cancel', jsonb_build_object('cancel_by', $2)) FROM target t),
        lets_go => false)
), unheard AS (
    DELETE FROM farmhand.triggering t WHERE t.child = ANY ($1)
)
SELECT j.job_id, coalesce(w.runs, 0) AS withdrawn,
    (SELECT count(*) FROM farmhand.run_live r WHERE r.job_id = j.job_id AND r.state = 'running') AS running
FROM unnest($1) j(job_id) CROSS JOIN ended
LEFT JOIN (SELECT (t.run).job_id, count(*) AS runs FROM target t GROUP BY 1) w ON w.job_id = j.job_id
ORDER BY j.job_id
