-- Only what the run's present attempt says counts; what is there already (the reply was lost) stays.
INSERT INTO farmhand.task (run_id, task, attempt, address, outcome, started_at, ended_at, exit_code, signal,
    cpu_ms, max_rss_bytes, reason, blame, stored_at)
SELECT r.run_id, t.task, r.attempt, r.running_at, t.outcome, t.started_at, t.ended_at, t.exit_code, t.signal,
    t.cpu_ms, t.max_rss_bytes, t.reason, ARRAY(SELECT jsonb_array_elements_text(t.blame)), statement_timestamp()
FROM jsonb_to_recordset($5) AS t(task text, outcome text, started_at timestamptz, ended_at timestamptz,
    exit_code integer, signal integer, cpu_ms bigint, max_rss_bytes bigint, reason text, blame jsonb)
JOIN farmhand.run_live r ON r.run_id = $1 AND r.attempt = $2 AND r.fence = $3 AND r.session = $4
    AND r.state = 'running'
ON CONFLICT (run_id, task, attempt) DO NOTHING
RETURNING task
