-- Jobs only for the first session of a boot; node_boot stays locked until their runs are there. While claims are closed the
-- caller takes it back.
WITH me AS MATERIALIZED (
    SELECT n.address, n.labels FROM farmhand.node n
    WHERE n.address = $1 AND n.session = $2 AND n.incarnation = $3 AND n.open
    FOR KEY SHARE OF n
), fresh AS (
    INSERT INTO farmhand.node_boot AS b (address, boot_id, seen_at)
    SELECT m.address, $4, statement_timestamp() FROM me m
    ON CONFLICT (address) DO UPDATE SET boot_id = excluded.boot_id, seen_at = excluded.seen_at
    WHERE b.boot_id <> excluded.boot_id
    RETURNING b.seen_at
), due AS MATERIALIZED (
    SELECT j.job_id, v.spec, j.paused, f.seen_at
    FROM fresh f
    CROSS JOIN me m
    CROSS JOIN farmhand.job j
    JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
    WHERE j.enabled AND NOT j.deleted AND j.each_node AND (j.placement IS NULL OR m.labels @> ANY (j.placement))
        AND EXISTS (SELECT FROM jsonb_array_elements_text(v.spec->'schedule') s WHERE lower(btrim(s)) = '@reboot')
    ORDER BY j.job_id
    FOR UPDATE OF j
)
SELECT e.open, coalesce((SELECT json_agg(d ORDER BY d.job_id) FROM due d), '[]') AS jobs
FROM farmhand.current_epoch e
