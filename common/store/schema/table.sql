-- Table jobs: runs for rows of a table of the user's own.

-- Ends that are not yet in their rows: because a row was locked (error is NULL), or the table refused.
CREATE TABLE farmhand.row_result (
    run_id bigint PRIMARY KEY,
    job_id text NOT NULL,
    rev bigint NOT NULL,
    key text NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    exit_code integer,
    message text NOT NULL,
    error text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX row_result_job ON farmhand.row_result (job_id, run_id);

CREATE FUNCTION farmhand.table_name(tbl jsonb) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT format('%I.%I', tbl->>'schema', tbl->>'name') $$;

-- The columns that a definition names, and what the table has under these names (NULL: nothing).
CREATE FUNCTION farmhand.table_columns(tbl jsonb)
RETURNS TABLE (role text, name text, rel oid, num smallint, type text, category "char", nullable boolean,
    generated boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT w.role, tbl->>w.role, c.oid, a.attnum, format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.atttypid IN ('smallint'::regtype, 'integer'::regtype) THEN 'i' ELSE t.typcategory END,
    NOT a.attnotnull, a.attgenerated <> '' OR a.attidentity = 'a'
FROM unnest(ARRAY['key', 'dispatch', 'started', 'finished', 'exit_code', 'message']) WITH ORDINALITY AS w(role, nth)
LEFT JOIN pg_namespace n ON n.nspname = (tbl->>'schema')::name
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = (tbl->>'name')::name
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = (tbl->>w.role)::name AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type b ON b.oid = a.atttypid
LEFT JOIN pg_type t ON t.oid = CASE WHEN b.typtype = 'd' THEN b.typbasetype ELSE b.oid END
WHERE tbl->>w.role IS NOT NULL
ORDER BY w.nth
$$;

-- What keeps a table job from working, the first things first; not fatal: what makes it slow. Rights are
-- those of the role that asks.
CREATE FUNCTION farmhand.check_table(tbl jsonb) RETURNS TABLE (problem text, mend text, fatal boolean)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t text := farmhand.table_name(tbl);
    c record;
    r record;
BEGIN
    fatal := true;
    SELECT k.oid, k.relkind INTO c FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace
        WHERE n.nspname = (tbl->>'schema')::name AND k.relname = (tbl->>'name')::name;
    IF NOT FOUND THEN
        problem := format('there is no table %s', t);
        mend := format('create it, or mend `name`; a name without a schema is one of the schema public');
        RETURN NEXT;
        RETURN;
    ELSIF c.relkind NOT IN ('r', 'p') THEN
        problem := format('%s is no table', t);
        mend := 'name a plain or partitioned table: rows of others cannot be locked';
        RETURN NEXT;
        RETURN;
    END IF;
    FOR r IN SELECT * FROM farmhand.table_columns(tbl) LOOP
        problem := CASE
            WHEN r.num IS NULL THEN format('the table %s has no column %I (`%s`)', t, r.name, r.role)
            WHEN r.role <> 'key' AND r.generated THEN
                format('column %I of %s (`%s`) is generated and cannot be set', r.name, t, r.role)
            WHEN r.role <> 'key' AND NOT r.nullable THEN
                format('column %I of %s (`%s`) is NOT NULL: it has to be empty until the row was run', r.name, t, r.role)
            WHEN r.role = 'dispatch' AND r.category NOT IN ('D', 'B', 'N', 'S', 'i') OR
                r.role IN ('started', 'finished') AND r.category <> 'D' OR
                r.role = 'exit_code' AND r.category NOT IN ('N', 'S', 'i') OR
                r.role = 'message' AND r.category <> 'S' THEN
                format('column %I of %s (`%s`) is of type %s', r.name, t, r.role, r.type)
            END;
        mend := CASE
            WHEN r.num IS NULL THEN 'names are taken as they are written, upper and lower case included'
            WHEN r.generated THEN 'name another column'
            WHEN NOT r.nullable THEN format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL;', t, r.name)
            ELSE CASE r.role
                WHEN 'dispatch' THEN 'it is a time, a number, a text or a boolean'
                WHEN 'exit_code' THEN 'it is a number or a text'
                WHEN 'message' THEN 'it is a text'
                ELSE 'it is a time or a date' END
            END;
        IF problem IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM farmhand.table_columns(tbl) m WHERE m.num IS NULL) THEN
        RETURN;
    END IF;

    SELECT string_agg(format('%I', m.name), ', ') FILTER (WHERE m.role IN ('key', 'dispatch')) AS reads,
        string_agg(format('%I', m.name), ', ') FILTER (WHERE m.role <> 'key') AS writes,
        has_schema_privilege(tbl->>'schema', 'USAGE') AS may_use,
        string_agg(format('%I', m.name), ', ') FILTER (WHERE m.role IN ('key', 'dispatch')
            AND NOT has_column_privilege(m.rel, m.num, 'SELECT')) AS unread,
        string_agg(format('%I', m.name), ', ') FILTER (WHERE m.role <> 'key'
            AND NOT has_column_privilege(m.rel, m.num, 'UPDATE')) AS unwritten
    INTO r FROM farmhand.table_columns(tbl) m;
    IF NOT r.may_use THEN
        problem := format('the role %I may not use the schema %I', current_user, tbl->>'schema');
        mend := format('GRANT USAGE ON SCHEMA %I TO %I;', tbl->>'schema', current_user);
        RETURN NEXT;
    END IF;
    IF r.unread IS NOT NULL OR r.unwritten IS NOT NULL THEN
        problem := format('the role %I may not %s of %s', current_user, concat_ws(', nor ',
            'read ' || r.unread, 'update ' || r.unwritten), t);
        mend := format('GRANT SELECT (%s), UPDATE (%s) ON %s TO %I;', r.reads, r.writes, t, current_user);
        RETURN NEXT;
    END IF;

    IF NOT EXISTS (SELECT FROM farmhand.table_columns(tbl) m JOIN pg_index i ON i.indrelid = m.rel
            WHERE m.role = 'key' AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                AND i.indnkeyatts = 1 AND i.indkey[0] = m.num) THEN
        problem := format('column %I of %s (`key`) is not unique: no unique index has it alone', tbl->>'key', t);
        mend := format('CREATE UNIQUE INDEX %sON %s (%I);', CASE c.relkind WHEN 'r' THEN 'CONCURRENTLY ' ELSE '' END,
            t, tbl->>'key');
        RETURN NEXT;
    END IF;
    IF NOT EXISTS (SELECT FROM farmhand.table_columns(tbl) m JOIN pg_index i ON i.indrelid = m.rel
            WHERE m.role = 'dispatch' AND i.indisvalid
                AND (pg_get_expr(i.indpred, i.indrelid) = format('(%I IS NULL)', m.name)
                    OR i.indpred IS NULL AND i.indkey[0] = m.num)) THEN
        fatal := false;
        problem := format('%s has no index on the rows to be run: every look reads the whole table', t);
        mend := format('CREATE INDEX %sON %s (%I) WHERE %I IS NULL;',
            CASE c.relkind WHEN 'r' THEN 'CONCURRENTLY ' ELSE '' END, t, tbl->>'key', tbl->>'dispatch');
        RETURN NEXT;
    END IF;
END
$$;

-- The look for rows to be run: $1 how many, $2 the keys that are not to be taken.
CREATE FUNCTION farmhand.rows_due_sql(tbl jsonb) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT format('SELECT t.%1$I::text AS key FROM %2$s t WHERE t.%3$I IS NULL AND t.%1$I IS NOT NULL '
        'AND t.%1$I <> ALL ($2::text[]::%4$s[]) ORDER BY t.%1$I LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED',
    k.name, farmhand.table_name(tbl), tbl->>'dispatch', format_type(a.atttypid, -1))
FROM farmhand.table_columns(tbl) k JOIN pg_attribute a ON a.attrelid = k.rel AND a.attnum = k.num
WHERE k.role = 'key'
$$;

-- Writes ends into their rows and forgets them; keeps those whose row is locked.
--
-- Triggers of users' tables find what they find everywhere else: for the statements on users' tables the session's own
-- search_path is given back.
--
-- A constraint or trigger of a user's table that is deferred has its say where what it says is caught: at the commit it
-- would take the run's own end along, which nobody could then write down. What was made immediate stays so for the rest of the
-- transaction, so each change of a user's table begins with what it is used to.
CREATE FUNCTION farmhand.write_rows(tbl jsonb, runs bigint[]) RETURNS void
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

-- Writes ends of a job into its rows: of these runs, or the oldest that wait. What the table refuses waits,
-- with the reason, and holds back nothing but itself.
CREATE FUNCTION farmhand.flush_rows(wanted text, runs bigint[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '300ms'
SET enable_seqscan = on
AS $$
DECLARE
    part record;
    one bigint;
    why text;
BEGIN
    FOR part IN
        SELECT v.spec->'table' AS tbl, array_agg(p.run_id ORDER BY p.run_id) AS runs
        FROM (SELECT w.* FROM farmhand.row_result w
            WHERE w.job_id = wanted AND (flush_rows.runs IS NULL OR w.run_id = ANY (flush_rows.runs))
            ORDER BY w.run_id LIMIT 500 FOR UPDATE SKIP LOCKED) p
        JOIN farmhand.job_revision v ON v.job_id = p.job_id AND v.rev = p.rev
        GROUP BY v.rev, v.spec
    LOOP
        BEGIN
            PERFORM farmhand.write_rows(part.tbl, part.runs);
        EXCEPTION WHEN OTHERS THEN
            FOREACH one IN ARRAY part.runs LOOP
                BEGIN
                    PERFORM farmhand.write_rows(part.tbl, ARRAY[one]);
                EXCEPTION WHEN lock_not_available THEN
                    -- The whole table is locked, so no other row will do better.
                    EXIT;
                WHEN OTHERS THEN
                    why := coalesce((SELECT c.problem FROM farmhand.check_table(part.tbl) c WHERE c.fatal LIMIT 1),
                        SQLERRM);
                    INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, detail)
                        SELECT clock_timestamp(), 'row_not_written', 'error', p.job_id, p.run_id,
                            jsonb_build_object('key', p.key, 'error', why)
                        FROM farmhand.row_result p WHERE p.run_id = one AND p.error IS NULL;
                    UPDATE farmhand.row_result p SET error = why
                        WHERE p.run_id = one AND p.error IS DISTINCT FROM why;
                END;
            END LOOP;
        END;
    END LOOP;
END
$$;

-- In the transaction that ends the run, whichever statement it is.
CREATE FUNCTION farmhand.end_rows() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    part record;
BEGIN
    INSERT INTO farmhand.row_result (run_id, job_id, rev, key, started_at, finished_at, exit_code, message)
        SELECT e.run_id, e.job_id, e.rev, e.key, e.started_at, e.finished_at, e.exit_code,
            e.state || coalesce(': ' || e.reason, '')
        FROM ended e
        WHERE e.key IS NOT NULL AND e.state <> 'skipped'
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    FOR part IN
        SELECT e.job_id, array_agg(e.run_id) AS runs FROM ended e WHERE e.key IS NOT NULL
        GROUP BY e.job_id ORDER BY e.job_id
    LOOP
        PERFORM farmhand.flush_rows(part.job_id, part.runs);
    END LOOP;
    RETURN NULL;
END
$$;
CREATE TRIGGER end_rows AFTER INSERT ON farmhand.run_history
    REFERENCING NEW TABLE AS ended FOR EACH STATEMENT EXECUTE FUNCTION farmhand.end_rows();

-- Makes runs for rows whose dispatch column is NULL, at most as many as may still be live, and sets the column:
-- both or neither. The job's row is locked meanwhile, so that who counts what is live counts alone.
CREATE FUNCTION farmhand.dispatch_rows(wanted text)
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
