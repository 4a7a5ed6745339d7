-- Neon: roles of its console are members of neon_superuser, which is none, reads and writes all data, and passes by row security.
CREATE ROLE :admin_superuser NOLOGIN CREATEROLE CREATEDB BYPASSRLS;
GRANT pg_read_all_data, pg_write_all_data TO :admin_superuser;
CREATE ROLE :admin LOGIN CREATEROLE CREATEDB IN ROLE :admin_superuser;
