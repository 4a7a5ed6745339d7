-- The last 1,000 attempts of a run: those that ended without ending it, and the last or present one, which the run's row has.
SELECT attempt, address, session, fence, claimed_at, started_at, ended_at, outcome, reason, exit_code, signal,
    cpu_ms, max_rss_bytes, output_bytes, output_dropped, farmhand.ran_ms(ran_ms, started_at, ended_at) AS ran_ms
FROM farmhand.attempt
WHERE run_id = $1 AND attempt > (SELECT r.attempt FROM farmhand.run r WHERE r.run_id = $1 LIMIT 1) - 1000
UNION ALL
SELECT r.attempt, r.running_at, r.session, r.fence, r.claimed_at, r.started_at, r.finished_at, r.state, r.reason,
    r.exit_code, r.signal, r.cpu_ms, r.max_rss_bytes, r.output_bytes, r.output_dropped, r.ran_ms
FROM farmhand.run r
WHERE r.run_id = $1 AND r.state NOT IN ('due', 'skipped') AND r.running_at IS NOT NULL AND r.claimed_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM farmhand.attempt a WHERE a.run_id = $1 AND a.attempt = r.attempt AND a.fence = r.fence)
ORDER BY attempt, ended_at
