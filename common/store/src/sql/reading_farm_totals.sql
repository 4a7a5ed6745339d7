SELECT
    (SELECT coalesce(jsonb_object_agg(s.state, s.n), '{}') FROM (
        SELECT state, count(*) AS n FROM farmhand.job WHERE NOT deleted GROUP BY 1) s) AS jobs,
    (SELECT count(*) FROM (SELECT FROM farmhand.job j JOIN farmhand.run_live r ON r.job_id = j.job_id AND r.kind = 'continuous'
        WHERE j.kind = 'continuous' LIMIT 10000) r) AS rounds,
    (SELECT coalesce(sum(instances), 0)::bigint FROM farmhand.job
        WHERE kind = 'continuous' AND state = 'enabled') AS loops,
    (SELECT e.epoch FROM farmhand.current_epoch e) AS epoch
