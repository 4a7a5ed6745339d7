-- What is known about the ends of the parents of these jobs, whose rows are locked.
SELECT j.job_id, nullif(j.state, 'deleted') AS state, v.spec,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('job_id', e.parent, 'on', e.on_end) ORDER BY e.nth), '[]')
        FROM farmhand.trigger_edge e WHERE e.child = j.job_id) AS parents,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', t.id, 'parent', t.parent, 'run_id', t.run_id,
            'firing', t.firing, 'due_at', t.due_at, 'by_hand', t.by_hand, 'end', t.ended, 'params', t.params,
            'others', t.others) ORDER BY t.id), '[]')
        FROM (
            SELECT t.*, f.ended,
                (SELECT farmhand.run_params(h.job_id, h.rev, h.params) FROM farmhand.run_history h
                    WHERE h.run_id = t.run_id LIMIT 1) AS params,
                -- Only an end that triggers meets others.
                CASE WHEN e.several AND f.ended <> 'skipped' AND (e.on_end = 'finish' OR e.on_end = f.ended) THEN (
                    SELECT jsonb_agg(farmhand.parent_stands(o.parent, t.due_at, t.by_hand))
                    FROM farmhand.trigger_edge o WHERE o.child = t.child AND o.parent <> t.parent
                ) ELSE '[]' END AS others
            FROM (SELECT * FROM farmhand.triggering t WHERE t.child = j.job_id ORDER BY t.id LIMIT 1100) t
            LEFT JOIN farmhand.trigger_edge e ON e.child = t.child AND e.parent = t.parent
            -- OFFSET: found once, however often it is read.
            CROSS JOIN LATERAL (SELECT farmhand.firing_end(t.run_id, t.firing) AS ended OFFSET 0) f
        ) t) AS ends
FROM farmhand.job j
JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
WHERE j.job_id = ANY ($1)
ORDER BY j.job_id
