-- How long the successes among the last 50 runs of each of these jobs took, in milliseconds.
SELECT j.job_id, ARRAY(
    SELECT farmhand.ran_ms(r.ran_ms, r.started_at, r.finished_at)
    FROM (SELECT h.state, h.ran_ms, h.started_at, h.finished_at FROM farmhand.run_history h
        WHERE h.job_id >= j.job_id AND h.job_id <= j.job_id ORDER BY h.job_id, h.run_id DESC LIMIT 50) r
    WHERE r.state = 'succeeded' AND r.started_at IS NOT NULL) AS millis
FROM unnest($1::text[]) AS j(job_id)
