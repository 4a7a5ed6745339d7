SELECT pg_is_in_recovery() AS standby, pg_postmaster_start_time()::text AS server
