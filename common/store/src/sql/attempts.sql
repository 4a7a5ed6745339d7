SELECT attempt, address, session, fence, claimed_at, started_at, ended_at, outcome, reason, exit_code, signal,
    cpu_ms, max_rss_bytes, output_bytes, output_dropped
FROM farmhand.attempt WHERE run_id = $1 ORDER BY attempt, ended_at
