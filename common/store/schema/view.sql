-- What people read.

CREATE VIEW farmhand.run AS
SELECT run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
    state, running_at, session, attempt, fence, retries, takeovers,
    CASE WHEN state = 'running' THEN reason
        WHEN gate IN ('pool', 'lock', 'rate') THEN coalesce(CASE WHEN ready_at <= statement_timestamp()
            THEN farmhand.waits_for(job_id, rev, node, run_id, priority, ready_at) END, reason)
        ELSE coalesce(reason, gate) END AS reason,
    params, made->>'idempotency_key' AS idempotency_key, made->>'submitted_by' AS submitted_by, (made->>'parent_run')::bigint AS parent_run,
    cancel_by IS NOT NULL AS cancel_requested, created_at, claimed_at, started_at, NULL::timestamptz AS finished_at,
    NULL::integer AS exit_code, NULL::integer AS signal, NULL::bigint AS cpu_ms,
    NULL::bigint AS max_rss_bytes, NULL::bigint AS output_bytes, NULL::bigint AS output_dropped,
    due_at AS first_due, due_at AS last_due, 1::bigint AS count, key,
    firing, made->'parents' AS parents, made ? 'by_hand' AS by_hand, NULL::bigint AS ran_ms
FROM farmhand.run_live
UNION ALL
SELECT run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
    state, running_at, session, attempt, fence, retries, takeovers,
    reason, params, idempotency_key, submitted_by, parent_run,
    cancel_by IS NOT NULL, created_at, claimed_at, started_at, finished_at,
    exit_code, signal, cpu_ms, max_rss_bytes, output_bytes, output_dropped,
    first_due, last_due, count, key,
    firing, parents, by_hand, farmhand.ran_ms(ran_ms, started_at, finished_at)
FROM farmhand.run_history;

CREATE VIEW farmhand.job_status AS
SELECT j.job_id, r.running_at, s.last_run_started, j.next_run,
    j.state,
    s.last_state, s.last_finished, s.last_success, coalesce(s.consecutive_failures, 0) AS consecutive_failures,
    j.rev, j.paused_by, j.paused_at, j.pause_reason
FROM farmhand.job j
LEFT JOIN farmhand.job_stat s USING (job_id)
LEFT JOIN LATERAL (SELECT l.running_at FROM farmhand.run_live l
    WHERE l.job_id = j.job_id AND l.state = 'running' ORDER BY l.claimed_at DESC LIMIT 1) r ON true
WHERE NOT j.deleted;

-- What this database is, as agents compare it with what they remember.
CREATE VIEW farmhand.database AS
SELECT f.farm_id, f.pulse, (SELECT q.last_value FROM farmhand.fence_seq q) AS fence,
    (SELECT q.last_value FROM farmhand.run_id_seq q) AS run, e.epoch, e.id, farmhand.server() AS server, e.open,
    greatest((SELECT max(l.longest_lease_ms) FROM farmhand.epoch l WHERE l.id IN (e.id, e.follows)),
        (SELECT max(n.ttl_ms) FROM farmhand.node n WHERE n.open), (SELECT max(l.ttl_ms) FROM farmhand.lease l), 0) AS longest_lease_ms
FROM farmhand.farm f CROSS JOIN farmhand.current_epoch e;
