-- As every write about an attempt: only of the attempt that holds the run. The lock keeps the run from
-- being freed, so the next claim comes after it: that one learns of all that was ever recorded.
WITH mine AS MATERIALIZED (
    SELECT r.run_id, r.attempt, r.running_at FROM farmhand.run_live r
    WHERE r.run_id = $1 AND r.attempt = $2 AND r.fence = $3 AND r.session = $4 AND r.state = 'running'
    FOR SHARE OF r
)
INSERT INTO farmhand.stream_item AS s (run_id, item, outcome, attempt, address, failures, line, started_at, ended_at,
    exit_code, signal, reason, output, stored_at)
SELECT DISTINCT ON (t.item) m.run_id, t.item, t.outcome, m.attempt, m.running_at, t.failures, decode(t.line, 'hex'),
    t.started_at, t.ended_at, t.exit_code, t.signal, t.reason, decode(t.output, 'hex'), statement_timestamp()
FROM mine m
CROSS JOIN jsonb_to_recordset($5) AS t(item bigint, outcome text, failures integer, line text,
    started_at timestamptz, ended_at timestamptz, exit_code integer, signal integer, reason text, output text)
ORDER BY t.item
ON CONFLICT (run_id, item) DO UPDATE SET outcome = excluded.outcome, attempt = excluded.attempt,
    address = excluded.address, line = excluded.line, failures = excluded.failures, started_at = excluded.started_at,
    ended_at = excluded.ended_at, exit_code = excluded.exit_code, signal = excluded.signal,
    reason = excluded.reason, output = excluded.output, stored_at = excluded.stored_at
RETURNING s.item
