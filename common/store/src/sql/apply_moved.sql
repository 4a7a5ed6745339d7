-- The same definition, now defined by another source: no new revision.
WITH moved AS (
    UPDATE farmhand.job j SET source = g.source
    FROM unnest($1::text[], $2::text[]) AS g(job_id, source)
    WHERE j.job_id = g.job_id AND j.job_id = ANY ($1)
    RETURNING j.job_id, j.rev, j.source
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
    SELECT statement_timestamp(), 'job_applied', 'info', m.job_id,
        jsonb_build_object('by', $3::text, 'rev', m.rev, 'from', m.source)
    FROM moved m
)
SELECT m.job_id FROM moved m
