SELECT p.attempt, p.at, p.checkpoint,
    (extract(epoch FROM greatest(clock_timestamp() - p.at, interval '0')) * 1000)::bigint AS age_ms
FROM farmhand.progress p WHERE p.run_id = $1
