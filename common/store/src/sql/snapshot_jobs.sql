-- At most $2 jobs: first those that something is the matter with (failing, taken over, or with an instant
-- decided since the last success), then those with a schedule.
-- lost: how many nodes or wardens died at least. One that dies ends many runs, and each of them once.
WITH lost AS MATERIALIZED (
    SELECT l.job_id, greatest(count(DISTINCT (l.address, l.session)), max(l.nth)) AS n
    FROM (SELECT a.job_id, a.address, a.session, row_number() OVER (PARTITION BY a.run_id) AS nth FROM farmhand.attempt a
        WHERE a.outcome = 'lost' AND a.ended_at > statement_timestamp() - interval '1 hour') l
    GROUP BY l.job_id
), seen AS (
    SELECT j.job_id, j.rev, farmhand.owes_success(j, o.since) AS waits, j.next_run, j.hard_ms, s.last_success, o.since,
        CASE WHEN j.state = 'enabled' THEN coalesce(s.consecutive_failures, 0) ELSE 0 END AS consecutive_failures,
        coalesce(l.n, 0) AS recent_takeovers,
        j.decided_until, count(*) OVER () AS total
    FROM farmhand.job j
    LEFT JOIN farmhand.job_stat s ON s.job_id = j.job_id
    CROSS JOIN LATERAL (SELECT greatest(s.last_success, j.applied_at, j.resumed_at) AS since) o
    LEFT JOIN lost l ON l.job_id = j.job_id
    WHERE j.enabled AND NOT j.deleted
)
SELECT s.job_id, s.rev, s.waits, s.next_run, s.hard_ms, s.last_success, s.since, s.consecutive_failures,
    s.recent_takeovers, s.total
FROM seen s
ORDER BY s.consecutive_failures > 0 OR s.recent_takeovers > 0 OR coalesce(s.decided_until > s.since, false) DESC,
    s.waits DESC, s.job_id
LIMIT $2
