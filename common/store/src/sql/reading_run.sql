-- What belongs to a run beside its row.
SELECT clock_timestamp() AS db_now,
    coalesce((SELECT l.cancel_by FROM farmhand.run_live l WHERE l.run_id = $1),
        (SELECT h.cancel_by FROM farmhand.run_history h WHERE h.run_id = $1 LIMIT 1)) AS cancel_by,
    coalesce((SELECT jsonb_typeof(v.spec->'flow') = 'object' FROM farmhand.job_revision v
        WHERE v.job_id = $2 AND v.rev = $3), false) AS flow,
    (SELECT n.lease_until FROM farmhand.run_live l JOIN farmhand.node n ON n.address = l.running_at
        AND n.session = l.session WHERE l.run_id = $1) AS lease_until,
    (SELECT l.claimed_at + l.hard_ms * interval '1 millisecond' FROM farmhand.run_live l
        WHERE l.run_id = $1 AND l.state = 'running') AS hard_end,
    (SELECT jsonb_build_object('p95_ms', s.p95_ms, 'runs', s.runs) FROM farmhand.slow_run s
        JOIN farmhand.run_live l ON l.run_id = s.run_id AND l.attempt = s.attempt AND l.state = 'running'
        WHERE s.run_id = $1) AS exceeded,
    (SELECT coalesce(jsonb_agg(to_jsonb(i) ORDER BY i.instance, i.run_id), '[]') FROM (
        SELECT r.run_id, r.job_id, r.kind, r.instance, r.instances, r.state, r.reason, r.running_at, r.attempt, r.fence, r.retries,
        r.takeovers, r.due_at, r.claimed_at, r.started_at, r.finished_at, r.exit_code, r.signal, r.count, r.key, r.firing,
        r.cancel_requested, r.ran_ms
        FROM farmhand.run r WHERE r.firing = $4 ORDER BY r.run_id LIMIT 200) i) AS firing
