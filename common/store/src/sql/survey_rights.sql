SELECT (SELECT p.prefix FROM farmhand.role_prefix p) AS prefix,
    (SELECT coalesce(array_agg(p.prefix || '_' || k.kind ORDER BY k.nth), '{}')
        FROM farmhand.role_prefix p
        CROSS JOIN unnest($1::text[]) WITH ORDINALITY AS k(kind, nth)
        WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = p.prefix || '_' || k.kind)) AS missing,
    -- Not asked by name: the role need not exist.
    coalesce((SELECT has_function_privilege(r.oid, f.oid, 'EXECUTE') AND has_schema_privilege(r.oid, n.oid, 'USAGE')
        FROM pg_roles r, farmhand.role_prefix p, pg_proc f
        WHERE r.rolname = p.prefix || '_submitter' AND f.pronamespace = n.oid AND f.proname = 'submit'), false) AS submitter,
    o.rolname::text AS owner, o.rolsuper AS owner_is_superuser,
    -- Agents that are connected now, by their connections' names.
    (SELECT coalesce(array_agg(DISTINCT a.usename::text || CASE WHEN u.rolsuper THEN ' (superuser)'
                WHEN pg_has_role(u.oid, n.nspowner, 'MEMBER') THEN ' (owner)' ELSE ' (may write definitions)' END), '{}')
        FROM pg_stat_activity a JOIN pg_roles u ON u.oid = a.usesysid
        WHERE a.datname = current_database() AND a.application_name LIKE 'farmhand %'
            AND a.application_name <> 'farmhand cli'
            AND (u.rolsuper OR pg_has_role(u.oid, n.nspowner, 'MEMBER')
                OR has_table_privilege(u.oid, 'farmhand.job_revision', 'INSERT, UPDATE, DELETE, TRUNCATE')
                OR has_table_privilege(u.oid, 'farmhand.job', 'INSERT, DELETE, TRUNCATE')
                OR has_schema_privilege(u.oid, n.oid, 'CREATE'))) AS wide_agents,
    (SELECT coalesce(array_agg(w.name ORDER BY w.name), '{}') FROM (
        SELECT c.relname::text AS name FROM pg_class c, aclexplode(c.relacl) x
            WHERE c.relnamespace = n.oid AND x.grantee = 0
        UNION
        SELECT p.proname::text || '()' FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
            WHERE p.pronamespace = n.oid AND x.grantee = 0
        UNION
        SELECT 'the schema' FROM aclexplode(n.nspacl) x WHERE x.grantee = 0) w) AS open_to_all,
    (SELECT coalesce(array_agg(p.proname::text || '()' ORDER BY p.proname), '{}') FROM pg_proc p
        -- Two are taken up into the statements that call them (one names nothing but columns), the other qualifies every name.
        WHERE p.pronamespace = n.oid AND p.prosqlbody IS NULL AND p.proname NOT IN ('active', 'ended', 'server')
            AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)) AS loose_functions,
    -- Where anybody may put something in the way of what this login's statements name.
    (SELECT coalesce(array_agg(s.nspname::text ORDER BY s.nspname), '{}')
        FROM pg_namespace s, aclexplode(coalesce(s.nspacl, acldefault('n', s.nspowner))) x
        WHERE s.nspname = ANY (current_schemas(false)) AND x.grantee = 0 AND x.privilege_type = 'CREATE') AS open_schemas
FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner
WHERE n.nspname = 'farmhand'
