-- How long the successes among the last 50 runs of each of these jobs took, in milliseconds.
SELECT j.job_id, ARRAY(
    SELECT (extract(epoch FROM r.finished_at - r.started_at) * 1000)::bigint
    FROM (SELECT h.state, h.started_at, h.finished_at FROM farmhand.run_history h
        WHERE h.job_id = j.job_id ORDER BY h.run_id DESC LIMIT 50) r
    WHERE r.state = 'succeeded' AND r.started_at IS NOT NULL) AS millis
FROM unnest($1::text[]) AS j(job_id)
