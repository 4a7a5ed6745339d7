-- Supabase: postgres is no superuser, and what it makes in public is open to the roles of the API.
CREATE ROLE :admin LOGIN CREATEROLE CREATEDB;
GRANT pg_monitor, pg_read_all_data, pg_signal_backend TO :admin;
CREATE ROLE :admin_api NOLOGIN;
ALTER DEFAULT PRIVILEGES FOR ROLE :admin IN SCHEMA public
    GRANT ALL ON TABLES TO :admin_api;
ALTER DEFAULT PRIVILEGES FOR ROLE :admin IN SCHEMA public
    GRANT ALL ON FUNCTIONS TO :admin_api;
