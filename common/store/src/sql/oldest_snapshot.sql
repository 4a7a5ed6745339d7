-- What keeps most dead rows from being removed, and how old the oldest is: slots and standbys do not say since when, so that
-- the age may be another's.
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
SELECT h.what, h.who, h.transactions, max(h.seconds) OVER () AS seconds
FROM held h ORDER BY h.transactions DESC, h.seconds DESC NULLS LAST, h.who LIMIT 1
