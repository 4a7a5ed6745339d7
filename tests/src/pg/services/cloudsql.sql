-- Cloud SQL and AlloyDB: postgres is a member of cloudsqlsuperuser (alloydbsuperuser), without SUPERUSER and REPLICATION.
CREATE ROLE :admin_superuser NOLOGIN CREATEROLE CREATEDB;
GRANT pg_monitor TO :admin_superuser;
CREATE ROLE :admin LOGIN CREATEROLE CREATEDB;
GRANT :admin_superuser TO :admin;
