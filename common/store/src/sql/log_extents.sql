SELECT attempt, count(DISTINCT seq) AS chunks, sum(length(chunk))::bigint AS bytes, min(seq) AS first_seq,
    max(seq) AS last_seq
FROM farmhand.run_log WHERE run_id = $1 GROUP BY attempt ORDER BY attempt
