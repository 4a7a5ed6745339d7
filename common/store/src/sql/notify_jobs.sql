SELECT w.job_id, coalesce(p.failures, 0) AS failures, p.failing_since, p.first_run, p.late_since,
    v.spec->>'owner' AS owner, v.spec->>'description' AS description, v.spec->>'runbook' AS runbook,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('name', t.name, 'spec', t.spec) ORDER BY t.name), '[]')
        FROM farmhand.notify_edge e JOIN farmhand.notify_target t ON t.name = e.target
        WHERE e.job_id = w.job_id) AS targets
FROM unnest($1) AS w(job_id)
LEFT JOIN farmhand.job j ON j.job_id = w.job_id
LEFT JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
LEFT JOIN farmhand.notify_episode p ON p.job_id = w.job_id
