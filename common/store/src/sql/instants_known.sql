-- From when on the history tells which instants of a job's present schedule ran: its first revision, the first of those that have this
-- schedule without a break, and the oldest week that is kept. A week of runs is kept or dropped as a whole; what
-- lies in no week is newer. Business days (LB, 3B) are counted without the days of calendars: with others it is another schedule.
WITH v AS MATERIALIZED (
    SELECT r.rev, r.applied_at, ARRAY[r.spec->'schedule', r.spec->'timezone', r.spec->'dst', r.spec->'spread',
        CASE WHEN r.spec->>'schedule' ~* '[0-9l]b' THEN r.spec->'exclude' END] AS schedule
    FROM farmhand.job_revision r WHERE r.job_id = $1
), present AS (
    SELECT v.schedule FROM v JOIN farmhand.job j ON j.job_id = $1 AND j.rev = v.rev
)
SELECT (SELECT min(v.applied_at) FROM v) AS first_applied,
    (SELECT min(v.applied_at) FROM v
        WHERE v.rev > coalesce((SELECT max(o.rev) FROM v o JOIN present p ON o.schedule IS DISTINCT FROM p.schedule), 0)) AS scheduled,
    coalesce((SELECT min(h.until) - interval '7 days' FROM farmhand.history_partition h WHERE h.parent = 'run_history'),
        statement_timestamp()) AS kept,
    (SELECT j.instances * CASE WHEN j.each_node
            THEN (SELECT count(*) FROM farmhand.node n
                WHERE n.state = 'ready' AND (j.placement IS NULL OR n.labels @> ANY (j.placement)))
            ELSE 1 END
        FROM farmhand.job j WHERE j.job_id = $1) AS runs
WHERE EXISTS (SELECT FROM v)
