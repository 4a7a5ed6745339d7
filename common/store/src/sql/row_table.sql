-- The table that a note is for, as its definition has it.
SELECT v.spec->'table' AS "table" FROM farmhand.row_result p JOIN farmhand.job_revision v ON v.job_id = p.job_id AND v.rev = p.rev
WHERE p.id = $1 AND jsonb_typeof(v.spec->'table') = 'object'
