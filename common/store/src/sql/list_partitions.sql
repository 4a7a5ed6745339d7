SELECT name, parent, until,
    until IS NULL AND CASE parent
        WHEN 'run_history' THEN EXISTS (SELECT FROM farmhand.run_history_default)
        WHEN 'attempt' THEN EXISTS (SELECT FROM farmhand.attempt_default)
        WHEN 'run_log' THEN EXISTS (SELECT FROM farmhand.run_log_default)
        ELSE EXISTS (SELECT FROM farmhand.event_default) END AS default_has_rows
FROM farmhand.history_partition ORDER BY parent, until
