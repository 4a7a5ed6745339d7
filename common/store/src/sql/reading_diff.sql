WITH newer AS (
    SELECT v.rev, v.spec FROM farmhand.job_revision v
    WHERE v.job_id = $1 AND ($3::bigint IS NULL OR v.rev = $3)
    ORDER BY v.rev DESC LIMIT 1
), older AS (
    SELECT v.rev, v.spec FROM farmhand.job_revision v
    WHERE v.job_id = $1 AND CASE WHEN $2::bigint IS NULL THEN v.rev < (SELECT n.rev FROM newer n) ELSE v.rev = $2 END
    ORDER BY v.rev DESC LIMIT 1
)
SELECT o.rev AS "from", n.rev AS "to", o.spec AS old, n.spec AS new FROM newer n CROSS JOIN older o
