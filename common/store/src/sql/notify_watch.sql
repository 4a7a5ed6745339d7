-- What is looked at when it is an agent's turn to look for missed deadlines: jobs whose deadlines somebody wants to hear of, as the
-- farm's snapshot sees them, and targets that want mail.
SELECT (SELECT coalesce(jsonb_agg(w), '[]') FROM (
    SELECT j.job_id, j.rev, farmhand.owes_success(j, l.since) AS waits, j.next_run, j.hard_ms, s.last_success, l.since,
        coalesce(s.consecutive_failures, 0)::bigint AS consecutive_failures, 0::bigint AS recent_takeovers,
        p.late_since, statement_timestamp() AS now
    FROM farmhand.job j
    LEFT JOIN farmhand.job_stat s ON s.job_id = j.job_id
    CROSS JOIN LATERAL (SELECT greatest(s.last_success, j.applied_at, j.resumed_at) AS since) l
    LEFT JOIN farmhand.notify_episode p ON p.job_id = j.job_id
    WHERE j.enabled AND NOT j.deleted AND (p.late_since IS NOT NULL OR EXISTS (
        SELECT FROM farmhand.notify_edge e JOIN farmhand.notify_target t ON t.name = e.target
        WHERE e.job_id = j.job_id AND t.spec->'on' ? 'deadline'))
    ORDER BY j.job_id
) w) AS jobs,
ARRAY(SELECT t.name FROM farmhand.notify_target t
    WHERE jsonb_typeof(t.spec->'email') = 'array' AND t.spec->'email' <> '[]' ORDER BY t.name) AS mail
