-- The job whose note has been ready for longest, but for those of $1; and when the next note is ready.
SELECT (SELECT p.job_id FROM farmhand.row_result p
        WHERE p.ready_at <= statement_timestamp() AND p.job_id <> ALL ($1) ORDER BY p.ready_at LIMIT 1) AS job_id,
    (SELECT greatest(extract(epoch FROM p.ready_at - statement_timestamp()) * 1000, 0)::bigint
        FROM farmhand.row_result p ORDER BY p.ready_at LIMIT 1) AS wait_ms
