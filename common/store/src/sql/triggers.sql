SELECT
    (SELECT coalesce(jsonb_agg(jsonb_build_object('job_id', e.parent, 'on', e.on_end,
            'state', coalesce(j.state, 'deleted'), 'next_run', j.next_run,
            'running', (SELECT coalesce(jsonb_agg(r.run_id ORDER BY r.run_id), '[]') FROM (
                SELECT r.run_id FROM farmhand.run_live r WHERE r.job_id = e.parent ORDER BY r.run_id + 0 LIMIT 20) r),
            'running_at', (SELECT r.running_at FROM farmhand.run_live r
                WHERE r.job_id = e.parent AND r.state = 'running' ORDER BY r.claimed_at DESC LIMIT 1),
            'last_state', s.last_state, 'last_finished', s.last_finished) ORDER BY e.nth), '[]')
        FROM farmhand.trigger_edge e
        LEFT JOIN farmhand.job j ON j.job_id = e.parent
        LEFT JOIN farmhand.job_stat s ON s.job_id = e.parent
        WHERE e.child = $1) AS parents,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('parent', t.parent, 'run_id', t.run_id, 'due_at', t.due_at,
            'ended_at', t.ended_at, 'waits', coalesce(t.waits, '[]')) ORDER BY t.id), '[]')
        FROM (SELECT * FROM farmhand.triggering t WHERE t.child = $1 ORDER BY t.id LIMIT 100) t) AS waiting,
    (SELECT coalesce(jsonb_object_agg(e.child, e.on_end), '{}') FROM farmhand.trigger_edge e WHERE e.parent = $1)
        AS children
