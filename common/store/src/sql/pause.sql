WITH j AS MATERIALIZED (
    SELECT job_id, paused AS was_paused FROM farmhand.job WHERE job_id = $1 AND NOT deleted FOR UPDATE
), done AS (
    UPDATE farmhand.job t SET paused = true, paused_by = $3, paused_at = $5,
        pause_reason = $4, next_run = NULL, seq = $2
    FROM j WHERE t.job_id = j.job_id AND NOT j.was_paused
    RETURNING t.job_id
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
    SELECT statement_timestamp(), 'job_paused', 'info', d.job_id,
        jsonb_strip_nulls(jsonb_build_object('by', $3, 'reason', $4))
    FROM done d
)
SELECT was_paused, pg_notify('farmhand', json_build_object('jobs', $2)::text)::text AS note FROM j
