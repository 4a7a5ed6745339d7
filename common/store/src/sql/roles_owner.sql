-- Whom objects are to belong to: whoever has the schema, or, while there is none, the database's owner if that is $1. Whether
-- this login may act as it: from PostgreSQL 16 on, a member may have no right to. Without that right, whether it can do anything,
-- and what is to be advised. An agent's login, or that of who reads or submits, is not to become an owner's.
SELECT o.rolname::text AS owner,
    pg_has_role(o.oid, CASE WHEN v.num >= 160000 THEN 'SET' ELSE 'MEMBER' END) AS may,
    to_regnamespace('farmhand') IS NULL AND has_database_privilege(current_database(), 'CREATE') AS alone,
    CASE WHEN o.rolcanlogin THEN format('migrate with the login %I', o.rolname)
        WHEN EXISTS (SELECT FROM pg_roles r
            WHERE r.rolname ~ '_(agent|rows|submitter|viewer)$' AND pg_has_role(r.oid, 'MEMBER'))
        THEN format('migrate with a login that may act as %I', o.rolname)
        ELSE format('as an administrator, run: GRANT %I TO %I%s;', o.rolname, current_user,
            CASE WHEN v.num >= 160000 THEN ' WITH SET TRUE, INHERIT TRUE' ELSE '' END) END AS fix
FROM pg_roles o, (SELECT current_setting('server_version_num')::integer) v(num)
WHERE o.oid = coalesce(
        (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'farmhand'),
        (SELECT d.datdba FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba
            WHERE d.datname = current_database() AND r.rolname = $1))
    AND o.rolname <> current_user
