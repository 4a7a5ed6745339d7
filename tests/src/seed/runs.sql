-- Runs :FIRST: to :LAST:, in the order of their ends, the last of them a moment ago.
INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, reason, ended_by,
    running_at, session, attempt, fence, retries, takeovers, params, created_at, claimed_at, started_at, finished_at,
    exit_code, cpu_ms, max_rss_bytes, output_bytes, output_dropped, first_due, last_due, count, firing)
SELECT n, format('job-%s', lpad((1 + (n * 7919) % :JOBS:)::text, 5, '0')), 2, 'scheduled', 0, 1, e.at - interval '4 s',
    e.at - interval '4 s', s.state, CASE s.state WHEN 'skipped' THEN 'overlap' WHEN 'failed' THEN 'exit code 3' END,
    CASE s.state WHEN 'skipped' THEN 'schedule' ELSE 'holder' END,
    CASE WHEN s.state <> 'skipped' THEN format('node-%s', lpad((1 + n % :NODES:)::text, 4, '0')) END,
    CASE WHEN s.state <> 'skipped' THEN 3 END, CASE s.state WHEN 'skipped' THEN 0 ELSE 1 + (n % 50 = 0)::int END,
    CASE WHEN s.state <> 'skipped' THEN n END, 0, (n % 50 = 0)::int, '{}', e.at - interval '4 s',
    CASE WHEN s.state <> 'skipped' THEN e.at - interval '3 s' - CASE WHEN n % 1000 = 0 THEN interval '2 h'
        ELSE interval '0' END END,
    CASE WHEN s.state <> 'skipped' THEN e.at - interval '2 s' END, e.at,
    CASE s.state WHEN 'succeeded' THEN 0 WHEN 'failed' THEN 3 END, 20, 8388608, 120, 0, e.at - interval '4 s',
    e.at - interval '4 s', 1, NULL
FROM generate_series(:FIRST:::bigint, :LAST:) n
CROSS JOIN LATERAL (SELECT statement_timestamp() - (:RUNS: - n) * (interval '50 days' / :RUNS:) - interval '10 s' AS at) e
CROSS JOIN LATERAL (SELECT CASE WHEN n % 211 = 0 THEN 'failed' WHEN n % 1009 = 0 THEN 'timed_out' WHEN n % 307 = 0
    THEN 'skipped' WHEN n % 2003 = 0 THEN 'cancelled' ELSE 'succeeded' END AS state) s;
