-- Whom objects are to belong to: whoever has the schema, or, while there is none, the database's owner if that is $1.
SELECT o.rolname::text AS owner
FROM pg_roles o
WHERE o.oid = coalesce(
        (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'farmhand'),
        (SELECT d.datdba FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba
            WHERE d.datname = current_database() AND r.rolname = $1))
    AND o.rolname <> current_user AND pg_has_role(o.oid, 'MEMBER')
