-- A constraint or trigger of a user's table that is deferred has its say where what it says is caught: at the commit it
-- would take the run's own end along, which nobody could then write down. What was made immediate stays so for the rest of the
-- transaction, so each change of a user's table begins with what it is used to.

-- As before, but for the constraints that a user's table puts off.
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
        SET CONSTRAINTS ALL DEFERRED;
        EXECUTE format('UPDATE %1$s t SET %4$s FROM (SELECT DISTINCT ON (p.key) p.* FROM farmhand.row_result p
                WHERE p.run_id = ANY ($1) AND p.key = ANY ($2) ORDER BY p.key, p.run_id DESC) m
            WHERE t.%2$s = m.key::%3$s AND t.%2$s = ANY ($2::text[]::%3$s[])', t, k, kind, sets)
            USING runs, free;
        SET CONSTRAINTS ALL IMMEDIATE;
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

-- The same here, so that what refuses is said.
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
        SET CONSTRAINTS ALL DEFERRED;
        EXECUTE change USING keys, runs;
        SET CONSTRAINTS ALL IMMEDIATE;
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
