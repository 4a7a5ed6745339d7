-- Roles are the cluster's: another database's migration may make the same ones at this moment, and only an
-- administrator may make any.
DO $$
DECLARE
    kind text;
    wanted text;
BEGIN
    FOREACH kind IN ARRAY string_to_array(current_setting('farmhand.role_kinds'), ',') LOOP
        wanted := current_setting('farmhand.role_prefix') || '_' || kind;
        CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        EXCEPTION
            WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
        END;
    END LOOP;
END
$$;
