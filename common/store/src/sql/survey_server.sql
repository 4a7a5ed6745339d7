SELECT current_setting('server_version_num')::int AS version_num,
    current_setting('server_version') AS version,
    current_setting('server_encoding') AS encoding,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS synchronous_standby_names,
    (SELECT count(*) FROM pg_stat_replication r WHERE r.sync_state IN ('sync', 'quorum')) AS synchronous_standbys,
    (SELECT count(*) FROM pg_stat_replication) AS standbys,
    -- Without the role pg_monitor their state is hidden.
    (SELECT count(*) FROM pg_stat_replication r WHERE r.sync_state IS NULL) AS hidden_standbys,
    current_setting('fsync') = 'on' AS fsync,
    current_setting('full_page_writes') = 'on' AS full_page_writes,
    current_setting('max_connections')::int AS max_connections,
    (SELECT count(*) FROM pg_stat_activity a WHERE a.usename IS NOT NULL) AS connections,
    clock_timestamp() AS now,
    (SELECT extract(epoch FROM clock_timestamp() - a.backend_start)::float8
        FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()) AS backend_age_seconds
