WITH j AS MATERIALIZED (
    SELECT job_id, paused AS was_paused, enabled,
        -- What follows was computed from the revision that was read.
        rev <> $5 AS changed,
        CASE WHEN $4::timestamptz <= decided_until THEN decided_until END AS stale
    FROM farmhand.job WHERE job_id = $1 AND NOT deleted FOR UPDATE
), done AS (
    UPDATE farmhand.job t SET paused = false, paused_by = NULL, paused_at = NULL, pause_reason = NULL,
        resumed_at = statement_timestamp(),
        scheduled = $4 IS NOT NULL, next_run = CASE WHEN j.enabled THEN $4 END, seq = $2
    FROM j WHERE t.job_id = j.job_id AND j.was_paused AND NOT j.changed AND j.stale IS NULL
    RETURNING t.job_id
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
    SELECT statement_timestamp(), 'job_resumed', 'info', d.job_id, jsonb_build_object('by', $3) FROM done d
)
SELECT was_paused, changed, stale, pg_notify('farmhand', json_build_object('jobs', $2)::text)::text AS note FROM j
