SELECT run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, state, running_at, session, attempt, fence,
    retries, takeovers, reason, params, idempotency_key, submitted_by, parent_run, cancel_requested, created_at,
    claimed_at, started_at, finished_at, exit_code, signal, cpu_ms, max_rss_bytes, output_bytes, output_dropped,
    first_due, last_due, count, key, firing, parents, by_hand, ran_ms
FROM farmhand.run WHERE firing = $1
ORDER BY node, instance, run_id
