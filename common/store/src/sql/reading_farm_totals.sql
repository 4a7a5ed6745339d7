SELECT
    (SELECT coalesce(jsonb_object_agg(s.state, s.n), '{}') FROM (
        SELECT CASE WHEN NOT enabled THEN 'disabled' WHEN paused THEN 'paused'
                WHEN observe THEN 'observing' ELSE 'enabled' END AS state, count(*) AS n
        FROM farmhand.job WHERE NOT deleted GROUP BY 1) s) AS jobs,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live WHERE kind = 'continuous' LIMIT 10000) r) AS rounds,
    (SELECT coalesce(sum(instances), 0)::bigint FROM farmhand.job
        WHERE continuous AND enabled AND NOT paused AND NOT deleted) AS loops,
    (SELECT e.epoch FROM farmhand.current_epoch e) AS epoch
