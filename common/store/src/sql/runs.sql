SELECT run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, state, running_at, session, attempt, fence,
    retries, takeovers, reason, params, idempotency_key, submitted_by, parent_run, cancel_requested, created_at,
    claimed_at, started_at, finished_at, exit_code, signal, cpu_ms, max_rss_bytes, output_bytes, output_dropped,
    first_due, last_due, count, key, firing, parents, by_hand
FROM farmhand.run
WHERE ($1::text IS NULL OR job_id = $1)
    AND (cardinality($2::text[]) = 0 OR state = ANY ($2))
    AND ($3::text IS NULL OR running_at = $3)
    AND ($4::bigint IS NULL OR run_id < $4)
    AND ($6::text IS NULL OR (md5(key) = md5($6) AND key = $6))
ORDER BY run_id DESC
LIMIT $5
