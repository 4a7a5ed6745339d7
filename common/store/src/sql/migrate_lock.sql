-- The lock is one number for all versions: "farmhand" in ASCII.
SELECT pg_advisory_xact_lock(7377299466905054820);
SET LOCAL search_path = pg_catalog, pg_temp;
