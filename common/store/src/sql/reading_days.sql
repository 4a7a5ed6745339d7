-- How the runs of a job ended, by day and state, and by state over all days (day is null). Of its newest $6 runs, those that
-- ended in [$2, $3); $4: where days begin and where the last one ends; a run that began more than $5 milliseconds after it was
-- ready was late.
WITH scanned AS (
    SELECT width_bucket(h.finished_at, $4::timestamptz[]) AS day, h.state, h.count, h.finished_at,
        h.started_at > h.ready_at + $5::bigint * interval '1 millisecond' AS late,
        CASE h.state WHEN 'succeeded' THEN farmhand.ran_ms(h.ran_ms, h.started_at, h.finished_at) END AS ms
    FROM farmhand.run_history h
    WHERE h.job_id = $1 AND h.finished_at >= $2 AND h.finished_at < $3
    ORDER BY h.run_id DESC
    LIMIT $6
)
SELECT s.day, s.state, sum(least(s.count, 1000000000)::integer) AS runs, count(*) AS records,
    count(*) FILTER (WHERE s.late) AS late, min(s.finished_at) AS first_end, count(s.ms) AS timed,
    percentile_disc(ARRAY[0.5, 0.95, 1]) WITHIN GROUP (ORDER BY s.ms) AS millis
FROM scanned s
GROUP BY GROUPING SETS ((s.day, s.state), (s.state))
ORDER BY s.day NULLS FIRST, s.state
