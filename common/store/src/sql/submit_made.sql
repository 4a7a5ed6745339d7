-- What this transaction submitted just now, whoever the database thinks it was ($3), and what lives beside it. No run for one
-- that an earlier submission with the same key made.
WITH made AS (
    UPDATE farmhand.run_live r SET submitted_by = coalesce($3, r.submitted_by)
    WHERE (r.run_id = $2 OR r.firing = $2) AND r.xmin = pg_current_xact_id()::xid
    RETURNING r.run_id
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, detail)
    SELECT statement_timestamp(), 'run_submitted', 'info', $1, $2, jsonb_build_object('by', $3)
    WHERE $3 IS NOT NULL AND EXISTS (SELECT FROM made)
)
SELECT (SELECT count(*) FROM made) AS runs,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live r
        WHERE r.job_id = $1 AND r.run_id <> $2 AND r.firing IS DISTINCT FROM $2
            AND farmhand.overlaps(r) LIMIT 1000) o) AS live
