SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), r.flush_lsn))::bigint AS bytes
FROM pg_stat_replication r WHERE r.state IN ('streaming', 'catchup')
