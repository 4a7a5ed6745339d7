-- Amazon RDS: the master user is a member of rds_superuser, which is none.
CREATE ROLE :admin LOGIN CREATEROLE CREATEDB;
CREATE ROLE :admin_superuser NOLOGIN;
GRANT pg_monitor, pg_signal_backend TO :admin_superuser;
GRANT :admin_superuser TO :admin;
