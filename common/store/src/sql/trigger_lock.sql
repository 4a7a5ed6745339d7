-- $1: parents that have ended; NULL: whatever is ready to be looked at.
SELECT j.job_id
FROM farmhand.job j
WHERE j.job_id = ANY (ARRAY(SELECT DISTINCT t.child FROM farmhand.triggering t
    WHERE t.child > $3 AND CASE WHEN $1::text[] IS NULL THEN t.ready_at <= statement_timestamp() ELSE t.parent = ANY ($1) END
    ORDER BY t.child LIMIT $2))
    AND (SELECT e.open FROM farmhand.current_epoch e)
ORDER BY j.job_id
FOR UPDATE OF j
