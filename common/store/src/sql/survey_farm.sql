SELECT (SELECT count(*) FROM farmhand.node n WHERE n.open) AS open_nodes,
    ARRAY(SELECT DISTINCT n.version FROM farmhand.node n WHERE n.open ORDER BY n.version) AS versions,
    -- Not asked by name: the role need not exist.
    coalesce((SELECT has_function_privilege(r.oid, f.oid, 'EXECUTE') AND has_schema_privilege(r.oid, 'farmhand', 'USAGE')
        FROM pg_roles r, pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
        WHERE r.rolname = 'farmhand_submitter' AND n.nspname = 'farmhand' AND f.proname = 'submit'), false)
        AS submitter
