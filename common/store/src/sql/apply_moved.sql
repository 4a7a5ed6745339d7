-- The same definition, now defined by another source: no new revision.
UPDATE farmhand.job j SET source = g.source
FROM unnest($1::text[], $2::text[]) AS g(job_id, source)
WHERE j.job_id = g.job_id AND j.job_id = ANY ($1)
RETURNING j.job_id
