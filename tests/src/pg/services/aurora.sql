-- As Amazon Aurora answers while rds.logical_replication is off. A built-in function cannot be replaced, only renamed.
ALTER FUNCTION pg_catalog.pg_current_wal_lsn() RENAME TO wal_lsn_of_old;
CREATE FUNCTION pg_catalog.pg_current_wal_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'WAL control functions cannot be executed' USING ERRCODE = '55000';
END $$;
ALTER FUNCTION pg_catalog.pg_control_system() RENAME TO control_system_of_old;
CREATE FUNCTION pg_catalog.pg_control_system(OUT system_identifier bigint) LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'wal_level must be set to logical' USING ERRCODE = '55000';
END $$;
