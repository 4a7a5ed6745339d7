-- By whoever may write the table, so by no stranger. The first migration has no table yet: of several, one makes the schema, and the
-- others begin again (migrate_prepare.sql).
DO $$
BEGIN
    IF to_regclass('farmhand.schema_version') IS NOT NULL THEN
        LOCK TABLE farmhand.schema_version IN SHARE ROW EXCLUSIVE MODE;
    END IF;
END
$$
