-- Who may do what: the names of the roles, functions that find what they mean whatever the caller's search_path says,
-- and history's partitions made and dropped for an agent that owns nothing. The grants themselves are given by
-- `farmhand migrate` each time (store/sql/roles_grant.sql), so that one list has them all.

-- Roles belong to the cluster, farms to databases: two farms of one cluster that shall not share their members have
-- different prefixes.
CREATE TABLE farmhand.role_prefix (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    prefix text NOT NULL CHECK (prefix ~ '^[a-z_][a-z0-9_]{0,39}$')
);

-- The functions of table jobs set no search_path before, because triggers of users' tables run inside them and must
-- find what they find everywhere else. Now they do, and give the session's own back for the statements on users' tables
-- alone.
ALTER FUNCTION farmhand.table_name(jsonb) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION farmhand.table_columns(jsonb) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION farmhand.check_table(jsonb) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION farmhand.rows_due_sql(jsonb) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION farmhand.flush_rows(text, bigint[]) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION farmhand.end_rows() SET search_path = pg_catalog, pg_temp;

-- As before but for its search_path.
CREATE OR REPLACE FUNCTION farmhand.write_rows(tbl jsonb, runs bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t text := farmhand.table_name(tbl);
    k text := quote_ident(tbl->>'key');
    keys text[];
    free text[];
    there text[];
    kind text;
    sets text;
BEGIN
    keys := ARRAY(SELECT DISTINCT p.key FROM farmhand.row_result p WHERE p.run_id = ANY (runs));
    -- Of the key without its length: comparing must not cut anything.
    SELECT max(format_type(a.atttypid, -1)) FILTER (WHERE m.role = 'key'),
        string_agg(format('%I = m.%I::%s', m.name, CASE m.role WHEN 'started' THEN 'started_at'
            WHEN 'finished' THEN 'finished_at' ELSE m.role END, m.type), ', ')
            FILTER (WHERE m.role NOT IN ('key', 'dispatch'))
    INTO kind, sets
    FROM farmhand.table_columns(tbl) m LEFT JOIN pg_attribute a ON a.attrelid = m.rel AND a.attnum = m.num;
    IF kind IS NULL OR EXISTS (SELECT FROM farmhand.table_columns(tbl) m WHERE m.num IS NULL) THEN
        RAISE EXCEPTION 'the table % or a column of it is gone', t;
    END IF;
    IF sets IS NOT NULL THEN
        SET LOCAL search_path TO DEFAULT;
        EXECUTE format('SELECT pg_catalog.array_agg(f.key) FROM (SELECT t.%2$s::text AS key FROM %1$s t
            WHERE t.%2$s = ANY ($1::text[]::%3$s[]) FOR NO KEY UPDATE SKIP LOCKED) f', t, k, kind)
            INTO free USING keys;
        free := coalesce(free, '{}');
        EXECUTE format('UPDATE %1$s t SET %4$s FROM (SELECT DISTINCT ON (p.key) p.* FROM farmhand.row_result p
                WHERE p.run_id = ANY ($1) AND p.key = ANY ($2) ORDER BY p.key, p.run_id DESC) m
            WHERE t.%2$s = m.key::%3$s AND t.%2$s = ANY ($2::text[]::%3$s[])', t, k, kind, sets)
            USING runs, free;
        SET LOCAL search_path = pg_catalog, pg_temp;
        IF cardinality(free) < cardinality(keys) THEN
            -- What is not there any more is not waited for.
            SET LOCAL search_path TO DEFAULT;
            EXECUTE format('SELECT pg_catalog.array_agg(t.%2$s::text) FROM %1$s t WHERE t.%2$s = ANY ($1::text[]::%3$s[])',
                t, k, kind) INTO there USING keys;
            SET LOCAL search_path = pg_catalog, pg_temp;
        END IF;
    END IF;
    DELETE FROM farmhand.row_result p
        WHERE p.run_id = ANY (runs) AND (free IS NULL OR p.key = ANY (free) OR p.key <> ALL (coalesce(there, '{}')));
END
$$;

-- As before but for its search_path.
CREATE OR REPLACE FUNCTION farmhand.dispatch_rows(wanted text)
RETURNS TABLE (made integer, room integer, more boolean, busy boolean, problem text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
SET enable_seqscan = on
AS $$
DECLARE
    j record;
    tbl jsonb;
    taken text[];
    live integer;
    keys text[];
    runs bigint[];
    kind text;
    mark text;
    clear text;
    look text;
    change text;
BEGIN
    made := 0;
    room := 0;
    more := false;
    busy := false;
    BEGIN
        PERFORM FROM farmhand.job WHERE job_id = wanted FOR NO KEY UPDATE;
        SELECT job.*, v.spec->'table' AS tbl INTO j FROM farmhand.job JOIN farmhand.job_revision v USING (job_id, rev)
            WHERE job.job_id = wanted AND job.enabled AND NOT job.paused AND NOT job.deleted
                AND jsonb_typeof(v.spec->'table') = 'object';
        IF NOT FOUND THEN
            RETURN NEXT;
            RETURN;
        END IF;
        tbl := j.tbl;
        PERFORM farmhand.flush_rows(wanted);
        -- One snapshot for both: a run that ends meanwhile is in the one or in the other.
        SELECT array_agg(u.key), count(*) FILTER (WHERE u.live) INTO taken, live FROM (
            SELECT r.key, true AS live FROM farmhand.run_live r WHERE r.job_id = wanted AND r.key IS NOT NULL
            UNION ALL
            SELECT p.key, false FROM farmhand.row_result p WHERE p.job_id = wanted) u;
        room := greatest((tbl->>'max_running')::integer - live, 0);
        IF room = 0 THEN
            RETURN NEXT;
            RETURN;
        END IF;
        room := least(room, 500);
        look := farmhand.rows_due_sql(tbl);
        SET LOCAL search_path TO DEFAULT;
        EXECUTE 'SELECT pg_catalog.array_agg(d.key) FROM (' || look || ') d' INTO keys USING room, coalesce(taken, '{}');
        SET LOCAL search_path = pg_catalog, pg_temp;
        IF keys IS NULL THEN
            RETURN NEXT;
            RETURN;
        END IF;
        -- A run that somebody just made by hand for one of them is its run: the row stays as it is until then.
        WITH new AS (
            INSERT INTO farmhand.run_live AS r (job_id, rev, kind, due_at, ready_at, priority, placement, on_lost,
                hold_ms, overlap, hard_ms, key)
            SELECT j.job_id, j.rev, 'table', statement_timestamp(), statement_timestamp(), j.priority, j.placement,
                j.on_lost, j.hold_ms, 'allow', j.hard_ms, w.key
            FROM unnest(keys) WITH ORDINALITY AS w(key, nth) ORDER BY w.nth
            ON CONFLICT DO NOTHING
            RETURNING r.run_id, r.key
        )
        SELECT array_agg(n.run_id ORDER BY n.run_id), array_agg(n.key ORDER BY n.run_id) INTO runs, keys FROM new n;
        SELECT max(format_type(a.atttypid, -1)) FILTER (WHERE m.role = 'key'),
            max(format('%I = %s::%s', m.name, CASE m.category WHEN 'D' THEN 'pg_catalog.clock_timestamp()' WHEN 'B' THEN 'true'
                WHEN 'i' THEN '1' ELSE 'm.run_id' END, m.type)) FILTER (WHERE m.role = 'dispatch'),
            string_agg(format(', %I = NULL', m.name), '') FILTER (WHERE m.role NOT IN ('key', 'dispatch'))
        INTO kind, mark, clear
        FROM farmhand.table_columns(tbl) m JOIN pg_attribute a ON a.attrelid = m.rel AND a.attnum = m.num;
        change := format('UPDATE %s t SET %s%s FROM ROWS FROM (pg_catalog.unnest($1::text[]::%s[]),
                pg_catalog.unnest($2::bigint[])) AS m(key, run_id)
            WHERE t.%I = m.key', farmhand.table_name(tbl), mark, coalesce(clear, ''), kind, tbl->>'key');
        SET LOCAL search_path TO DEFAULT;
        EXECUTE change USING keys, runs;
        SET LOCAL search_path = pg_catalog, pg_temp;
        made := coalesce(cardinality(runs), 0);
        more := made >= room;
        IF made > 0 THEN
            PERFORM pg_notify('farmhand', json_build_object('due', runs[1], 'job', wanted)::text);
        END IF;
    EXCEPTION
        WHEN lock_not_available OR deadlock_detected THEN
            made := 0;
            busy := true;
        WHEN OTHERS THEN
            made := 0;
            problem := SQLERRM;
    END;
    IF problem IS NOT NULL THEN
        problem := coalesce((SELECT c.problem || ' (' || c.mend || ')' FROM farmhand.check_table(tbl) c
            WHERE c.fatal LIMIT 1), problem);
    END IF;
    RETURN NEXT;
END
$$;

-- With the owner's rights, because only an owner makes and drops tables: fixed names, bounded arguments.
CREATE OR REPLACE FUNCTION farmhand.ensure_partitions(weeks_ahead integer) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET lock_timeout = '500ms'
AS $$
DECLARE
    parent text;
    week timestamptz;
    part text;
    key text;
BEGIN
    IF weeks_ahead IS NULL OR weeks_ahead NOT BETWEEN 0 AND 104 THEN
        RAISE EXCEPTION 'weeks_ahead is %: 0 to 104', weeks_ahead USING ERRCODE = '22023';
    END IF;
    FOR parent, key IN VALUES ('run_history', 'finished_at'), ('attempt', 'ended_at'), ('run_log', 'stored_at'),
            ('event', 'at') LOOP
        FOR week IN SELECT date_trunc('week', statement_timestamp()) + n * interval '7 days'
                    FROM generate_series(0, weeks_ahead) n LOOP
            part := format('%s_%s', parent, to_char(week, 'YYYYMMDD'));
            CONTINUE WHEN to_regclass(format('farmhand.%I', part)) IS NOT NULL;
            BEGIN
                -- Of two that get here at once, the second waits here; its look-up by name may still say no.
                PERFORM pg_advisory_xact_lock(7377299466905054821);
                -- Made apart and attached: PARTITION OF would lock out everybody who ends a run, behind
                -- the longest reader (a dump, say).
                EXECUTE format('CREATE TABLE farmhand.%I (LIKE farmhand.%I INCLUDING ALL, '
                    'CHECK (%I IS NOT NULL AND %I >= %L AND %I < %L))', part, parent, key, key, week, key,
                    week + interval '7 days');
                EXECUTE format('ALTER TABLE farmhand.%I ATTACH PARTITION farmhand.%I FOR VALUES FROM (%L) TO (%L)',
                    parent, part, week, week + interval '7 days');
                RETURN NEXT part;
            EXCEPTION
                WHEN duplicate_table THEN
                    NULL;
                WHEN check_violation THEN
                    -- The default partition already holds rows of that week and keeps taking them.
                    RAISE NOTICE 'rows of % are in the default partition', part;
                WHEN lock_not_available THEN
                    RAISE NOTICE '% is in use; the next call makes %', parent, part;
                    RETURN;
            END;
        END LOOP;
    END LOOP;
END
$$;

-- As before, with the owner's rights: of a history never the last day.
CREATE OR REPLACE FUNCTION farmhand.drop_partitions(runs integer, logs integer, events integer) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms'
AS $$
DECLARE
    part record;
BEGIN
    IF least(runs, logs, events) < 1 THEN
        RAISE EXCEPTION 'history is kept for at least a day' USING ERRCODE = '22023';
    END IF;
    FOR part IN
        SELECT h.name FROM farmhand.history_partition h
        WHERE h.until < statement_timestamp() - CASE h.parent
            WHEN 'run_log' THEN logs WHEN 'event' THEN events ELSE runs END * interval '1 day'
        ORDER BY h.until
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE farmhand.%I', part.name);
            RETURN NEXT part.name;
        EXCEPTION WHEN lock_not_available OR undefined_table THEN
            -- Whoever ends a run waits behind us meanwhile: no second try.
            RAISE NOTICE 'partition % is in use; the next call drops it', part.name;
            EXIT;
        END;
    END LOOP;
    -- The net's rows have no partition to drop.
    DELETE FROM farmhand.run_history_default WHERE finished_at < statement_timestamp() - runs * interval '1 day';
    DELETE FROM farmhand.attempt_default WHERE ended_at < statement_timestamp() - runs * interval '1 day';
    DELETE FROM farmhand.run_log_default WHERE stored_at < statement_timestamp() - logs * interval '1 day';
    DELETE FROM farmhand.event_default WHERE at < statement_timestamp() - events * interval '1 day';
    DELETE FROM farmhand.submission WHERE at < statement_timestamp() - runs * interval '1 day';
END
$$;

REVOKE ALL ON FUNCTION farmhand.ensure_partitions(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION farmhand.drop_partitions(integer, integer, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION farmhand.waits_for(text, bigint, text, bigint, integer, timestamptz) FROM PUBLIC;
