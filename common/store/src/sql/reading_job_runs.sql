-- The newest runs of a job, or the newest before run $2.
SELECT r.run_id FROM (
    (SELECT l.run_id FROM farmhand.run_live l WHERE l.job_id = $1 AND l.run_id < coalesce($2::bigint, 9223372036854775807)
    ORDER BY l.run_id + 0 DESC LIMIT $3)
    UNION ALL
    (SELECT h.run_id FROM farmhand.run_history h
    WHERE h.job_id >= $1 AND h.job_id <= $1 AND h.run_id < coalesce($2::bigint, 9223372036854775807)
    ORDER BY h.job_id, h.run_id DESC LIMIT $3)) r
ORDER BY r.run_id DESC
LIMIT $3
