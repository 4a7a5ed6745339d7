-- Jobs only for the first session of a boot; node_boot stays locked until their runs are there. While claims are closed the
-- caller takes it back. The jobs are locked here and read by boot_jobs: this statement may not see a revision that it waited for.
WITH me AS MATERIALIZED (
    SELECT n.address FROM farmhand.node n
    WHERE n.address = $1 AND n.session = $2 AND n.incarnation = $3 AND n.open
    FOR KEY SHARE OF n
), fresh AS (
    INSERT INTO farmhand.node_boot AS b (address, boot_id, seen_at)
    SELECT m.address, $4, statement_timestamp() FROM me m
    ON CONFLICT (address) DO UPDATE SET boot_id = excluded.boot_id, seen_at = excluded.seen_at
    WHERE b.boot_id <> excluded.boot_id
    RETURNING b.seen_at
), due AS MATERIALIZED (
    SELECT j.job_id
    FROM fresh f
    CROSS JOIN farmhand.job j
    WHERE j.each_node
    ORDER BY j.job_id
    FOR UPDATE OF j
)
SELECT e.open, (SELECT f.seen_at FROM fresh f) AS seen_at, ARRAY(SELECT d.job_id FROM due d) AS job_ids
FROM farmhand.current_epoch e
