SELECT
    (SELECT coalesce(jsonb_object_agg(s.state, s.n), '{}') FROM (
        SELECT state, count(*) AS n FROM farmhand.job WHERE NOT deleted GROUP BY 1) s) AS jobs,
    (SELECT count(*) FROM (SELECT FROM farmhand.run_live WHERE kind = 'continuous' LIMIT 10000) r) AS rounds,
    (SELECT coalesce(sum(instances), 0)::bigint FROM farmhand.job
        WHERE kind = 'continuous' AND state = 'enabled') AS loops,
    (SELECT e.epoch FROM farmhand.current_epoch e) AS epoch
