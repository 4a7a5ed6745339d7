SELECT w.job_id, coalesce(p.failures, 0) AS failures, p.failing_since, p.first_run, p.late_since,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('name', t.name, 'spec', t.spec) ORDER BY t.name), '[]')
        FROM farmhand.notify_edge e JOIN farmhand.notify_target t ON t.name = e.target
        WHERE e.job_id = w.job_id) AS targets
FROM unnest($1) AS w(job_id)
LEFT JOIN farmhand.notify_episode p ON p.job_id = w.job_id
