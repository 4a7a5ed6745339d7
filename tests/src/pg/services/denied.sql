-- No service in particular: nothing is told of the server's files, identity and other sessions that PUBLIC is told as a rule,
-- and no predefined role is granted.
CREATE ROLE :admin LOGIN CREATEROLE;
REVOKE EXECUTE ON FUNCTION pg_control_checkpoint(), pg_control_init(), pg_control_recovery(), pg_control_system(),
    pg_conf_load_time(), pg_last_committed_xact(), pg_tablespace_size(oid), pg_database_size(oid), pg_database_size(name),
    pg_current_wal_lsn(), pg_walfile_name(pg_lsn), pg_cancel_backend(int), pg_terminate_backend(int, bigint)
    FROM PUBLIC;
