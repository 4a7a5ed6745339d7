WITH queue AS (
    SELECT count(*) FILTER (WHERE state = 'running') AS running,
        count(*) FILTER (WHERE state = 'due' AND gate IS NULL AND ready_at <= statement_timestamp()) AS due,
        count(*) FILTER (WHERE state = 'due' AND (gate IS NOT NULL OR ready_at > statement_timestamp())) AS waiting,
        count(*) FILTER (WHERE kind = 'continuous') AS rounds,
        min(ready_at) FILTER (WHERE state = 'due' AND gate IS NULL AND ready_at <= statement_timestamp())
            AS oldest_ready
    FROM farmhand.run_live
)
SELECT clock_timestamp() AS db_now,
    (SELECT coalesce(jsonb_object_agg(s.state, s.n), '{}') FROM (
        SELECT farmhand.shown_state(n) AS state, count(*) AS n
        FROM farmhand.node n GROUP BY 1) s) AS nodes,
    (SELECT coalesce(sum(slots), 0)::bigint FROM farmhand.node WHERE open) AS slots,
    q.running, q.due, q.waiting, q.oldest_ready, q.rounds,
    (SELECT coalesce(sum(instances), 0)::bigint FROM farmhand.job
        WHERE continuous AND enabled AND NOT paused AND NOT deleted) AS loops,
    (SELECT coalesce(jsonb_object_agg(s.state, s.n), '{}') FROM (
        SELECT CASE WHEN NOT enabled THEN 'disabled' WHEN paused THEN 'paused' ELSE 'enabled' END AS state,
            count(*) AS n
        FROM farmhand.job WHERE NOT deleted GROUP BY 1) s) AS jobs,
    (SELECT count(*) FROM farmhand.job WHERE enabled AND scheduled AND NOT paused AND NOT deleted
        AND next_run < statement_timestamp() - interval '10 seconds') AS overdue_jobs,
    (SELECT min(next_run) FROM farmhand.job WHERE enabled AND scheduled AND NOT paused AND NOT deleted) AS next_run,
    (SELECT coalesce(jsonb_agg(f ORDER BY f.consecutive_failures DESC, f.job_id), '[]') FROM (
        SELECT s.job_id, s.consecutive_failures, s.last_state, s.last_finished, s.last_success
        FROM farmhand.job_stat s JOIN farmhand.job j ON j.job_id = s.job_id AND farmhand.active(j)
        WHERE s.consecutive_failures > 0
        ORDER BY s.consecutive_failures DESC, s.job_id LIMIT 20) f) AS failing,
    (SELECT e.epoch FROM farmhand.current_epoch e) AS epoch,
    (SELECT e.open FROM farmhand.current_epoch e) AS claims_open
FROM queue q
