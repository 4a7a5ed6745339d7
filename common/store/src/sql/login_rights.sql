-- Whether the login $1 may do what a member of the role $3 has to do, and a role that it may act as and that may do more. $2: the
-- farm's other roles, as their names end, and $3 that one.
SELECT l.oid IS NOT NULL AS known, w.name AS role,
    coalesce(pg_has_role(l.oid, o.oid, 'USAGE'), false) AS member,
    (SELECT r.rolname::text FROM pg_roles r
        WHERE pg_has_role(l.oid, r.oid, 'MEMBER')
            AND (r.rolsuper OR r.rolcreaterole OR r.oid = n.nspowner OR r.rolname LIKE 'pg\_%'
                OR r.rolname IN (SELECT p.prefix || '_' || k.kind FROM unnest($2::text[]) AS k(kind))
                OR $3 = 'rows' AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v')
                    AND has_table_privilege(r.oid, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')))
        ORDER BY r.oid = l.oid, r.rolname LIMIT 1) AS beyond
FROM farmhand.role_prefix p
CROSS JOIN LATERAL (SELECT p.prefix || '_' || $3 AS name) w
JOIN pg_namespace n ON n.nspname = 'farmhand'
LEFT JOIN pg_roles o ON o.rolname = w.name
LEFT JOIN pg_roles l ON l.rolname = $1
