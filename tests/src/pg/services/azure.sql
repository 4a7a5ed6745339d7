-- Azure Database for PostgreSQL: the administrator is a member of azure_pg_admin. Of the predefined roles it may grant none
-- here, as was so there with PostgreSQL 16.
CREATE ROLE :admin_group NOLOGIN;
CREATE ROLE :admin LOGIN CREATEROLE CREATEDB IN ROLE :admin_group;
