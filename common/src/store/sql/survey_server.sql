WITH held AS (
    SELECT 'session' AS what, coalesce(nullif(a.application_name, ''), a.usename::text, '?') || ', pid ' || a.pid AS who,
        age(a.backend_xmin)::bigint AS transactions,
        extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds
    FROM pg_stat_activity a
    WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()
        AND coalesce(a.backend_type, '') NOT LIKE 'autovacuum%' AND (a.datname IS NULL OR a.datname = current_database())
    UNION ALL
    SELECT 'prepared transaction', p.gid, age(p.transaction)::bigint,
        extract(epoch FROM clock_timestamp() - p.prepared)::float8
    FROM pg_prepared_xacts p WHERE p.database = current_database()
    UNION ALL
    SELECT 'replication slot', s.slot_name::text, age(s.xmin)::bigint, NULL
    FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
)
SELECT current_setting('server_version_num')::int AS version_num,
    current_setting('server_version') AS version,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS synchronous_standby_names,
    (SELECT count(*) FROM pg_stat_replication r WHERE r.sync_state IN ('sync', 'quorum')) AS synchronous_standbys,
    current_setting('fsync') = 'on' AS fsync,
    current_setting('full_page_writes') = 'on' AS full_page_writes,
    current_setting('max_connections')::int AS max_connections,
    (SELECT count(*) FROM pg_stat_activity a WHERE a.usename IS NOT NULL) AS connections,
    clock_timestamp() AS now,
    (SELECT extract(epoch FROM clock_timestamp() - a.backend_start)::float8
        FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()) AS backend_age_seconds,
    (SELECT jsonb_build_object('what', h.what, 'who', h.who, 'transactions', h.transactions, 'seconds', h.seconds)
        FROM held h ORDER BY h.seconds DESC NULLS LAST, h.transactions DESC LIMIT 1) AS oldest_snapshot
