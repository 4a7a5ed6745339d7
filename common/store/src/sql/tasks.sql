SELECT DISTINCT ON (t.task) t.task, t.attempt, t.address, t.outcome, t.started_at, t.ended_at, t.exit_code,
    t.signal, t.cpu_ms, t.max_rss_bytes, t.reason, to_jsonb(t.blame) AS blame
FROM farmhand.task t
WHERE t.run_id = $1
ORDER BY t.task, t.attempt DESC
