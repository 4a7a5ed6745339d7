-- Table jobs: runs for rows of a table of the user's own.

-- What is to be written into rows: when an attempt started, how a run ended. Only ever inserted by those who start and end
-- runs, so that none of them waits for whoever writes a row; written and deleted by agents alone (row_writes).
CREATE TABLE farmhand.row_result (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    job_id text NOT NULL,
    rev bigint NOT NULL,
    key text NOT NULL,
    started_at timestamptz,
    -- NULL: the attempt started.
    finished_at timestamptz,
    exit_code integer,
    message text,
    noted_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- Not to be tried before.
    ready_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    tries integer NOT NULL DEFAULT 0,
    -- What the table said at the last try.
    error text,
    CHECK ((finished_at IS NULL) = (message IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX row_result_job ON farmhand.row_result (job_id, id);
CREATE INDEX row_result_ready ON farmhand.row_result (ready_at);

CREATE FUNCTION farmhand.table_name(tbl jsonb) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT format('%I.%I', tbl->>'schema', tbl->>'name') $$;

-- The jobs with a revision that takes the same rows, known by the same key: another one, or one that was deleted, may still
-- have runs of them.
CREATE FUNCTION farmhand.table_jobs(tbl jsonb) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT array_agg(DISTINCT v.job_id) FROM farmhand.job_revision v
WHERE jsonb_typeof(v.spec->'table') = 'object' AND v.spec->'table'->>'name' = tbl->>'name'
    AND v.spec->'table' @> jsonb_build_object('schema', tbl->'schema', 'dispatch', tbl->'dispatch')
    AND v.spec->'table'->'key' = tbl->'key'
$$;
CREATE INDEX job_revision_table ON farmhand.job_revision ((spec->'table'->>'name')) WHERE jsonb_typeof(spec->'table') = 'object';

-- The columns that a definition names, and what the table has under these names (NULL: nothing). Those of `key`, `order_by`
-- and `row` are in the order of their lists.
CREATE FUNCTION farmhand.table_columns(tbl jsonb)
RETURNS TABLE (role text, name text, rel oid, num smallint, type text, base text, category "char", nullable boolean,
    generated boolean, written boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT w.role, w.name, c.oid, a.attnum, format_type(a.atttypid, a.atttypmod),
    CASE WHEN b.typtype = 'd' THEN format_type(b.typbasetype, b.typtypmod) ELSE format_type(a.atttypid, a.atttypmod) END,
    CASE WHEN t.oid IN ('smallint'::regtype, 'integer'::regtype) THEN 'i' ELSE t.typcategory END,
    NOT a.attnotnull, a.attgenerated <> '' OR a.attidentity = 'a', w.role NOT IN ('key', 'order_by', 'row')
FROM (
    SELECT s.role, tbl->>s.role AS name, 100 + s.nth AS nth
    FROM unnest(ARRAY['dispatch', 'started', 'finished', 'exit_code', 'message']) WITH ORDINALITY AS s(role, nth)
    UNION ALL
    SELECT l.role, e.name, 200 * (l.nth - 1) + e.nth
    FROM unnest(ARRAY['key', 'order_by', 'row']) WITH ORDINALITY AS l(role, nth),
        jsonb_array_elements_text(CASE jsonb_typeof(tbl->l.role) WHEN 'array' THEN tbl->l.role
            WHEN 'string' THEN jsonb_build_array(tbl->l.role) ELSE '[]' END) WITH ORDINALITY AS e(name, nth)
) w
LEFT JOIN pg_namespace n ON n.nspname = (tbl->>'schema')::name
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = (tbl->>'name')::name
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = w.name::name AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type b ON b.oid = a.atttypid
LEFT JOIN pg_type t ON t.oid = CASE WHEN b.typtype = 'd' THEN b.typbasetype ELSE b.oid END
WHERE w.name IS NOT NULL
ORDER BY w.nth
$$;

-- Of the columns of `key`: their names; the text of a row's key, which is that of its column or, of several, a JSON array of their
-- texts; whether the key is NULL; whether a row has the key `m.key`. Rows are those of `t`.
CREATE FUNCTION farmhand.key_columns(tbl jsonb, OUT names text, OUT shown text, OUT missing text, OUT matches text, OUT n bigint)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT string_agg(format('%I', k.name), ', ' ORDER BY k.nth),
    CASE count(*) WHEN 1 THEN format('t.%I::text', min(k.name))
        ELSE format('pg_catalog.jsonb_build_array(%s)::text', string_agg(format('t.%I::text', k.name), ', ' ORDER BY k.nth)) END,
    string_agg(format('t.%I IS NULL', k.name), ' OR '),
    -- Of the type without its length: comparing must not cut anything.
    CASE count(*) WHEN 1 THEN format('t.%I = m.key::%s', min(k.name), min(k.kind))
        ELSE string_agg(format('t.%I = (m.key::pg_catalog.jsonb OPERATOR(pg_catalog.->>) %s)::%s', k.name, k.nth - 1, k.kind),
            ' AND ' ORDER BY k.nth) END,
    count(*)
FROM (SELECT c.name, format_type(a.atttypid, -1) AS kind, c.ordinality AS nth
    FROM farmhand.table_columns(tbl) WITH ORDINALITY c LEFT JOIN pg_attribute a ON a.attrelid = c.rel AND a.attnum = c.num
    WHERE c.role = 'key') k
$$;

-- Whether values of a column have an order: each type that it is made of has one, its own or that of a type it is stored as.
CREATE FUNCTION farmhand.has_order(rel oid, num smallint) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
WITH RECURSIVE part(type) AS (
    SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = rel AND a.attnum = num
    UNION
    SELECT i.type FROM part JOIN pg_type t ON t.oid = part.type
    CROSS JOIN LATERAL (
        SELECT CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END
        WHERE t.typtype = 'd' OR t.typsubscript = 'array_subscript_handler'::regproc
        UNION ALL
        SELECT a.atttypid FROM pg_attribute a
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) i(type)
)
-- Domains, arrays and composite types are as their parts; enums, ranges and multiranges always have one.
SELECT NOT EXISTS (SELECT FROM part JOIN pg_type t ON t.oid = part.type
    WHERE t.typtype IN ('b', 'p') AND t.typsubscript <> 'array_subscript_handler'::regproc
        AND NOT EXISTS (SELECT FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod
            WHERE m.amname = 'btree' AND o.opcdefault AND (o.opcintype = t.oid OR EXISTS (SELECT FROM pg_cast c
                WHERE c.castsource = t.oid AND c.casttarget = o.opcintype AND c.castmethod = 'b' AND c.castcontext = 'i'))))
$$;

-- What keeps a table job from working, the first things first; not fatal: what makes it slow. Rights are those of the role that
-- asks. Only catalogs are read: who reads a table executes functions of its owner with their own rights (policies, indexes,
-- views), and whatever is looked at first, the owner may change it before it is read.
CREATE FUNCTION farmhand.check_table(tbl jsonb) RETURNS TABLE (problem text, fix text, fatal boolean)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t text := farmhand.table_name(tbl);
    c record;
    r record;
    keyed record;
BEGIN
    fatal := true;
    keyed := farmhand.key_columns(tbl);
    SELECT k.oid, k.relkind
    INTO c FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace
        WHERE n.nspname = (tbl->>'schema')::name AND k.relname = (tbl->>'name')::name;
    IF NOT FOUND THEN
        problem := format('there is no table %s', t);
        fix := coalesce((SELECT 'write the schema before the name: there is '
                || string_agg(format('%I.%I', n.nspname, k.relname), ', ' ORDER BY n.nspname)
            FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace
            WHERE k.relname = (tbl->>'name')::name AND k.relkind IN ('r', 'p')
                AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'),
            'create it, or fix `name`; a name without a schema is one of the schema public');
        RETURN NEXT;
        RETURN;
    ELSIF c.relkind NOT IN ('r', 'p') THEN
        problem := format('%s is no table', t);
        fix := 'name a plain or partitioned table: rows of others cannot be locked';
        RETURN NEXT;
        RETURN;
    END IF;
    FOR r IN SELECT * FROM farmhand.table_columns(tbl) LOOP
        problem := CASE
            WHEN r.num IS NULL THEN format('the table %s has no column %I (`%s`)', t, r.name, r.role)
            WHEN r.written AND r.generated THEN
                format('column %I of %s (`%s`) is generated and cannot be set', r.name, t, r.role)
            WHEN r.written AND NOT r.nullable THEN
                format('column %I of %s (`%s`) is NOT NULL: it has to be empty until the row was run', r.name, t, r.role)
            WHEN r.role = 'dispatch' AND r.category NOT IN ('D', 'B', 'N', 'S', 'i') OR
                r.role IN ('started', 'finished') AND r.category <> 'D' OR
                r.role = 'exit_code' AND r.category NOT IN ('N', 'S', 'i') OR
                r.role = 'message' AND r.category <> 'S' THEN
                format('column %I of %s (`%s`) is of type %s', r.name, t, r.role, r.type)
            -- Keys of several columns are told apart by their texts.
            WHEN r.role = 'key' AND keyed.n > 1 AND r.category <> 'E' AND r.base !~ ('^(smallint|integer|bigint|numeric\(.*|boolean|uuid'
                    || '|text|character.*|date|timestamp.*)$') THEN
                format('column %I of %s (`key`) is of type %s, of which equal values may have different texts', r.name, t, r.type)
            WHEN r.role = 'key' AND keyed.n > 1 AND EXISTS (SELECT FROM pg_attribute a JOIN pg_collation o ON o.oid = a.attcollation
                    WHERE a.attrelid = r.rel AND a.attnum = r.num AND NOT o.collisdeterministic) THEN
                format('column %I of %s (`key`) has a collation by which equal values may have different texts', r.name, t)
            WHEN r.role = 'order_by' AND NOT farmhand.has_order(r.rel, r.num) THEN
                format('rows of %s have no order by `order_by`: column %I is of type %s', t, r.name, r.type)
            -- What is too long for a text would be cut in silence.
            WHEN r.role = 'dispatch' AND coalesce(substring(r.base FROM '^character(?: varying)?\((\d+)\)$')::integer,
                    (SELECT m[1]::integer - m[2]::integer FROM regexp_match(r.base, '^numeric\((\d+),(-?\d+)\)$') m), 19) < 19 THEN
                format('column %I of %s (`%s`) is of type %s, too narrow for the number of a run', r.name, t, r.role, r.type)
            END;
        fix := CASE
            WHEN r.num IS NULL THEN 'names are taken as they are written, upper and lower case included'
            WHEN r.role = 'key' THEN
                'of several columns each is an integer, a numeric of fixed scale, a boolean, a uuid, a text, a date, a timestamp or an enum'
            WHEN r.role = 'order_by' THEN 'name columns of types that have an order, such as a time or a number'
            WHEN r.generated THEN 'name another column'
            WHEN NOT r.nullable THEN format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL;', t, r.name)
            ELSE CASE r.role
                WHEN 'dispatch' THEN CASE WHEN r.category IN ('N', 'S') THEN format('ALTER TABLE %s ALTER COLUMN %I TYPE %s;', t, r.name,
                    CASE r.category WHEN 'N' THEN 'bigint' ELSE 'text' END) ELSE 'it is a time, a number, a text or a boolean' END
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

    SELECT string_agg(format('%I', m.name), ', ') FILTER (WHERE m.read) AS reads,
        string_agg(format('%I', m.name), ', ') FILTER (WHERE m.written) AS writes,
        has_schema_privilege(tbl->>'schema', 'USAGE') AS may_use,
        string_agg(format('%I', m.name), ', ') FILTER (WHERE m.read
            AND NOT has_column_privilege(m.rel, m.num, 'SELECT')) AS unread,
        string_agg(format('%I', m.name), ', ') FILTER (WHERE m.written
            AND NOT has_column_privilege(m.rel, m.num, 'UPDATE')) AS unwritten,
        string_agg(format('%I, ', m.name), '') FILTER (WHERE m.role = 'order_by') AS indexed,
        coalesce(min(m.num) FILTER (WHERE m.role = 'order_by' AND m.name = tbl->'order_by'->>0), 0) AS first_of_order
    INTO r FROM (SELECT k.*, k.role IN ('key', 'dispatch', 'order_by', 'row') AS read FROM farmhand.table_columns(tbl) k) m;
    IF NOT r.may_use THEN
        problem := format('the role %I may not use the schema %I', current_user, tbl->>'schema');
        fix := format('GRANT USAGE ON SCHEMA %I TO %I;', tbl->>'schema', current_user);
        RETURN NEXT;
    END IF;
    IF r.unread IS NOT NULL OR r.unwritten IS NOT NULL THEN
        problem := format('the role %I may not %s of %s', current_user, concat_ws(', nor ',
            'read ' || r.unread, 'update ' || r.unwritten), t);
        fix := format('GRANT SELECT (%s), UPDATE (%s) ON %s TO %I;', r.reads, r.writes, t, current_user);
        RETURN NEXT;
    END IF;

    IF NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
            AND ARRAY(SELECT x FROM unnest((i.indkey::smallint[])[0:i.indnkeyatts - 1]) x ORDER BY x)
                = ARRAY(SELECT m.num FROM farmhand.table_columns(tbl) m WHERE m.role = 'key' ORDER BY m.num)) THEN
        problem := CASE keyed.n WHEN 1 THEN format('column %s of %s (`key`) is not unique: no unique index has it alone', keyed.names, t)
            ELSE format('columns %s of %s (`key`) are not unique: no unique index has them and no other', keyed.names, t) END;
        fix := format('CREATE UNIQUE INDEX %sON %s (%s);', CASE c.relkind WHEN 'r' THEN 'CONCURRENTLY ' ELSE '' END,
            t, keyed.names);
        RETURN NEXT;
    END IF;
    fatal := false;
    -- One in the order of `order_by` spares sorting all rows that wait at every poll.
    IF NOT EXISTS (SELECT FROM farmhand.table_columns(tbl) m JOIN pg_index i ON i.indrelid = m.rel
            WHERE m.role = 'dispatch' AND i.indisvalid
                AND (pg_get_expr(i.indpred, i.indrelid) = format('(%I IS NULL)', m.name)
                        AND r.first_of_order IN (0, i.indkey[0])
                    OR i.indpred IS NULL AND i.indkey[0] = m.num AND r.first_of_order IN (0, coalesce(i.indkey[1], 0)))) THEN
        problem := format('%s has no index on the rows to be run%s: every poll reads %s', t,
            CASE WHEN r.indexed IS NULL THEN '' ELSE ' in the order of `order_by`' END,
            CASE WHEN r.indexed IS NULL THEN 'the whole table' ELSE 'all of them, or the whole table' END);
        fix := format('CREATE INDEX %sON %s (%s%s) WHERE %I IS NULL;', CASE c.relkind WHEN 'r' THEN 'CONCURRENTLY ' ELSE '' END,
            t, coalesce(r.indexed, ''), keyed.names, tbl->>'dispatch');
        RETURN NEXT;
    END IF;
END
$$;

-- The look for rows to be run: $1 how many, $2 the keys that are not to be taken. `given` are the columns of `row`, a numeric
-- as its text: few readers of JSON keep all of its digits.
CREATE FUNCTION farmhand.rows_due_sql(tbl jsonb) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
-- Of a row that is far too long for a variable no JSON is made: together they would be too long for an array.
SELECT format('SELECT %s AS key, CASE WHEN %s THEN CASE WHEN %s <= 262144 THEN pg_catalog.json_build_object(%s) END END AS given '
        'FROM %s t WHERE t.%I IS NULL AND NOT (%s) AND %s ORDER BY %s LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED',
    k.shown, coalesce(m.small, 'true'), coalesce(m.bytes, '0'), m.given, farmhand.table_name(tbl), tbl->>'dispatch', k.missing,
    CASE k.n WHEN 1 THEN format('t.%s <> ALL ($2::text[]::%s[])', k.names, m.kind)
        ELSE format('%s <> ALL ($2::text[])', k.shown) END, m.ordered)
FROM farmhand.key_columns(tbl) k
CROSS JOIN (SELECT string_agg(format('t.%I', c.name), ', ' ORDER BY c.role = 'key', c.ordinality) FILTER (WHERE c.role IN ('key', 'order_by'))
        AS ordered,
        string_agg(format('coalesce(pg_catalog.pg_column_size(t.%I), 0) <= 1048576', c.name), ' AND ') FILTER (WHERE c.role = 'row')
        AS small,
        string_agg(format('coalesce(pg_catalog.octet_length(t.%I::text), 0)', c.name), ' + ') FILTER (WHERE c.role = 'row') AS bytes,
        string_agg(format('%L::text, t.%I%s', c.name, c.name,
            CASE WHEN c.category = 'N' AND c.base LIKE 'numeric%' THEN '::text' END), ', ') FILTER (WHERE c.role = 'row') AS given,
        max(format_type(a.atttypid, -1)) FILTER (WHERE c.role = 'key') AS kind
    FROM farmhand.table_columns(tbl) WITH ORDINALITY c LEFT JOIN pg_attribute a ON a.attrelid = c.rel AND a.attnum = c.num) m
$$;

-- In the transaction that ends the run. With the owner's rights, so that who ends runs needs none on what is to be written.
CREATE FUNCTION farmhand.end_rows(ended farmhand.run_end[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO farmhand.row_result (run_id, attempt, job_id, rev, key, started_at, finished_at, exit_code, message)
        SELECT e.run_id, e.attempt, e.job_id, e.rev, e.key, e.started_at, e.finished_at, e.exit_code,
            e.state || coalesce(': ' || e.reason, '')
        FROM unnest(ended) e
        JOIN farmhand.job_revision v ON v.job_id = e.job_id AND v.rev = e.rev AND jsonb_typeof(v.spec->'table') = 'object'
        WHERE e.key IS NOT NULL AND e.state <> 'skipped';
END
$$;
REVOKE ALL ON FUNCTION farmhand.end_rows(farmhand.run_end[]) FROM PUBLIC;

-- Takes the oldest notes of a job, at most so many, and returns the statements that write them into their rows; none where
-- another agent is at that job. The caller executes these at the top of the same transaction, so that a user's triggers find
-- the search_path that they find everywhere else, and commits; or rolls back, and nothing was taken.
--
-- A row belongs to its newest run while its dispatch column is set. Notes of older runs are dropped, and starts that are over.
-- With the owner's rights, because the caller may have none here (farmhand_rows); nothing of the table's owner is executed in it.
CREATE FUNCTION farmhand.row_writes(wanted text, most integer) RETURNS TABLE (ids bigint[], writes text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tbl jsonb;
    of_rev bigint;
    jobs text[];
BEGIN
    -- One agent at a time, so that what is written later was noted later.
    IF NOT farmhand.be_alone('rows', wanted, false) THEN
        RETURN;
    END IF;
    SELECT w.rev, v.spec->'table' INTO of_rev, tbl
        FROM farmhand.row_result w LEFT JOIN farmhand.job_revision v ON v.job_id = w.job_id AND v.rev = w.rev
        WHERE w.job_id = wanted AND w.ready_at <= statement_timestamp() ORDER BY w.id LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    jobs := wanted || farmhand.table_jobs(tbl);
    RETURN QUERY
    WITH taken AS MATERIALIZED (
        DELETE FROM farmhand.row_result p WHERE p.id = ANY (ARRAY(
            SELECT w.id FROM farmhand.row_result w
            WHERE w.job_id = wanted AND w.rev = of_rev AND w.ready_at <= statement_timestamp() ORDER BY w.id
            LIMIT least(most, 1000)))
        RETURNING p.*
    ), last AS MATERIALIZED (
        SELECT DISTINCT ON (t.key) t.* FROM taken t ORDER BY t.key, t.run_id DESC, t.finished_at, t.attempt DESC
    ), live AS MATERIALIZED (
        SELECT r.key, r.run_id FROM farmhand.run_live r WHERE r.job_id = ANY (jobs) AND r.key IS NOT NULL
    ), own AS MATERIALIZED (
        SELECT l.* FROM last l
        WHERE NOT EXISTS (SELECT FROM live v WHERE v.key = l.key AND v.run_id > l.run_id)
            AND NOT EXISTS (SELECT FROM farmhand.run_history h
                WHERE h.job_id = ANY (jobs) AND md5(h.key) = md5(l.key) AND h.key IS NOT NULL AND h.run_id > l.run_id
                    AND h.state <> 'skipped')
            AND (l.finished_at IS NOT NULL OR EXISTS (SELECT FROM farmhand.run_live r
                WHERE r.run_id = l.run_id AND r.attempt = l.attempt AND r.state = 'running'))
    )
    SELECT ARRAY(SELECT t.id FROM taken t), coalesce((
        SELECT string_agg(farmhand.row_update(tbl, e.ended, e.entries), '; ') FROM (
            SELECT o.finished_at IS NOT NULL AS ended, string_agg(
                format('(%L::text, %L::timestamptz, %L::timestamptz, %L::integer, %L::text)',
                    o.key, o.started_at, o.finished_at, o.exit_code, o.message), ', ') AS entries
            FROM own o GROUP BY 1) e), '');
END
$$;
REVOKE ALL ON FUNCTION farmhand.row_writes(text, integer) FROM PUBLIC;

-- The statement that writes these values into the rows that are still dispatched: of ends, or of starts alone.
CREATE FUNCTION farmhand.row_update(tbl jsonb, ended boolean, entries text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    sets text;
BEGIN
    SELECT string_agg(format('%I = m.%I::%s', m.name, m.role, m.type), ', ')
            FILTER (WHERE m.written AND m.role <> 'dispatch' AND (ended OR m.role = 'started'))
    INTO sets
    FROM farmhand.table_columns(tbl) m;
    IF EXISTS (SELECT FROM farmhand.table_columns(tbl) m WHERE m.num IS NULL AND (m.written OR m.role = 'key')) THEN
        RAISE EXCEPTION 'the table % or a column of it is gone', farmhand.table_name(tbl);
    END IF;
    -- Only `key` and `dispatch` are named: there is nothing to be told. NULL is left out of what is executed.
    IF sets IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN format('UPDATE %s t SET %s FROM (VALUES %s) AS m(key, started, finished, exit_code, message)
        WHERE %s AND t.%I IS NOT NULL', farmhand.table_name(tbl), sets, entries,
        (farmhand.key_columns(tbl)).matches, tbl->>'dispatch');
END
$$;

-- Locks the job, so that who counts what is live counts alone, and says how many runs of rows may be made now (`room`) and which keys
-- are not to be taken. `tbl` is NULL where none may be made.
--
-- This and make_row_runs are all that a dispatch needs of the farm, and have the owner's rights: the dispatch executes code of the
-- table's owner with its login's rights, so that login need have no others (farmhand_rows). Each checks what it acts on.
CREATE FUNCTION farmhand.row_room(wanted text, OUT tbl jsonb, OUT taken text[], OUT room integer, OUT unwritten boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live integer;
    jobs text[];
BEGIN
    room := 0;
    unwritten := false;
    -- No other job is locked.
    IF NOT EXISTS (SELECT FROM farmhand.job j WHERE j.job_id = wanted AND j.kind = 'table') THEN
        RETURN;
    END IF;
    PERFORM FROM farmhand.job WHERE job_id = wanted FOR NO KEY UPDATE;
    SELECT v.spec->'table' INTO tbl FROM farmhand.job JOIN farmhand.job_revision v USING (job_id, rev)
        WHERE job.job_id = wanted AND job.kind = 'table' AND farmhand.may_make('rows', job.state, job.observe) = 'run'
            AND (SELECT e.open FROM farmhand.current_epoch e);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    jobs := farmhand.table_jobs(tbl);
    IF cardinality(jobs) > 1 THEN
        -- Each has a lock of its own on its job alone.
        PERFORM farmhand.be_alone('table', farmhand.table_name(tbl), true);
    END IF;
    -- One snapshot for both: a run that ends meanwhile is in the one or in the other.
    SELECT array_agg(u.key), count(*) FILTER (WHERE u.own AND u.live), count(*) FILTER (WHERE u.own AND NOT u.live) > 0
    INTO taken, live, unwritten FROM (
        SELECT r.key, r.job_id = wanted AS own, true AS live FROM farmhand.run_live r
        WHERE r.job_id = ANY (jobs) AND r.key IS NOT NULL
        UNION ALL
        SELECT p.key, p.job_id = wanted, false FROM farmhand.row_result p WHERE p.job_id = ANY (jobs)) u;
    room := least(greatest((tbl->>'max_running')::integer - live, 0), 500);
END
$$;
REVOKE ALL ON FUNCTION farmhand.row_room(text) FROM PUBLIC;

-- Makes runs of a table job for rows with these keys, as many as there is room for. A run that somebody just made by hand for one
-- of them is its run. Returned are the runs with their keys.
CREATE FUNCTION farmhand.make_row_runs(wanted text, keys text[], given jsonb[], OUT runs bigint[], OUT of_keys text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most integer := (SELECT r.room FROM farmhand.row_room(wanted) r);
BEGIN
    -- No unique index has room for as much, however well it compresses; who writes no rows could fill the disk. A key that is
    -- longer than a command can be given fails its own run.
    IF EXISTS (SELECT FROM unnest(keys) k WHERE octet_length(k) > 1048576) THEN
        RAISE EXCEPTION 'a key has more than 1048576 bytes' USING ERRCODE = '22023';
    END IF;
    SELECT m.run_ids INTO runs FROM farmhand.make_runs('rows', ARRAY(
        SELECT jsonb_populate_record(NULL::farmhand.want, jsonb_build_object('job_id', wanted, 'overlap', 'allow',
            'due', jsonb_build_array(statement_timestamp()), 'key', u.key,
            -- What fits into no variable is not kept either, nor what run_live refuses: other rows would wait for this one.
            'params', CASE WHEN jsonb_typeof(u.given) = 'object' AND octet_length(u.given::text) <= 65536
                AND farmhand.is_readable(u.given) THEN u.given END))
        FROM unnest(keys, given) WITH ORDINALITY AS u(key, given, nth) WHERE u.key IS NOT NULL
        ORDER BY u.nth LIMIT most)) m;
    SELECT array_agg(r.key ORDER BY r.run_id) INTO of_keys FROM farmhand.run_live r WHERE r.run_id = ANY (runs);
END
$$;
REVOKE ALL ON FUNCTION farmhand.make_row_runs(text, text[], jsonb[]) FROM PUBLIC;

-- Makes runs for rows whose dispatch column is NULL, at most as many as may still be live, and sets the column:
-- both or neither. It runs with the rights of its login, and so do triggers, policies and index expressions of the table's owner.
CREATE FUNCTION farmhand.dispatch_rows(wanted text)
RETURNS TABLE (made integer, room integer, more boolean, busy boolean, unwritten boolean, keyless boolean, problem text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
SET enable_seqscan = on
AS $$
DECLARE
    tbl jsonb;
    taken text[];
    keys text[];
    read json[];
    given jsonb[] := '{}';
    runs bigint[];
    mark text;
    clear text;
    look text;
    change text;
    one text;
    marked text[] := '{}';
BEGIN
    made := 0;
    room := 0;
    more := false;
    busy := false;
    unwritten := false;
    keyless := false;
    BEGIN
        SELECT f.* INTO tbl, taken, room, unwritten FROM farmhand.row_room(wanted) f;
        IF room = 0 THEN
            RETURN NEXT;
            RETURN;
        END IF;
        look := farmhand.rows_due_sql(tbl);
        -- Keys of several columns are compared as texts: these do not hang on who looks.
        IF (farmhand.key_columns(tbl)).n > 1 THEN
            SET LOCAL timezone = 'UTC';
            SET LOCAL datestyle = 'ISO';
        END IF;
        SET LOCAL search_path TO DEFAULT;
        EXECUTE 'SELECT pg_catalog.array_agg(d.key), pg_catalog.array_agg(d.given) FROM (' || look || ') d'
            INTO keys, read USING room, coalesce(taken, '{}');
        IF (farmhand.key_columns(tbl)).n > 1 THEN
            SET LOCAL timezone TO DEFAULT;
            SET LOCAL datestyle TO DEFAULT;
        END IF;
        SET LOCAL search_path = pg_catalog, pg_temp;
        -- Not all that a `json` column holds can be kept. That is one row's mistake, and its run says so.
        FOR nth IN 1..coalesce(cardinality(read), 0) LOOP
            BEGIN
                given[nth] := read[nth]::jsonb;
            EXCEPTION
                WHEN data_exception OR program_limit_exceeded THEN given[nth] := '{}';
            END;
        END LOOP;
        IF EXISTS (SELECT FROM farmhand.table_columns(tbl) c WHERE c.role = 'key' AND c.nullable) THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE (%s) AND t.%I IS NULL)',
                farmhand.table_name(tbl), (farmhand.key_columns(tbl)).missing, tbl->>'dispatch') INTO keyless;
        END IF;
        IF keys IS NULL THEN
            RETURN NEXT;
            RETURN;
        END IF;
        SELECT m.runs, m.of_keys INTO runs, keys FROM farmhand.make_row_runs(wanted, keys, given) m;
        SELECT max(format('%I = %s::%s', m.name, CASE m.category WHEN 'D' THEN 'pg_catalog.clock_timestamp()' WHEN 'B' THEN 'true'
                WHEN 'i' THEN '1' ELSE 'm.run_id' END, m.type)) FILTER (WHERE m.role = 'dispatch'),
            string_agg(format(', %I = NULL', m.name), '') FILTER (WHERE m.written AND m.role <> 'dispatch')
        INTO mark, clear
        FROM farmhand.table_columns(tbl) m;
        change := format('UPDATE %s t SET %s%s FROM ROWS FROM (pg_catalog.unnest($1::text[]),
                pg_catalog.unnest($2::bigint[])) AS m(key, run_id)
            WHERE %s RETURNING CASE WHEN t.%I IS NOT NULL THEN m.key END', farmhand.table_name(tbl), mark, coalesce(clear, ''),
            (farmhand.key_columns(tbl)).matches, tbl->>'dispatch');
        SET LOCAL search_path TO DEFAULT;
        SET CONSTRAINTS ALL DEFERRED;
        FOR one IN EXECUTE change USING keys, runs LOOP
            IF one IS NOT NULL THEN
                marked := pg_catalog.array_append(marked, one);
            END IF;
        END LOOP;
        SET CONSTRAINTS ALL IMMEDIATE;
        SET LOCAL search_path = pg_catalog, pg_temp;
        -- It would be run again after each run.
        IF cardinality(marked) < cardinality(keys) THEN
            one := (SELECT left(k, 200) FROM unnest(keys) k WHERE k <> ALL (marked) LIMIT 1);
            RAISE EXCEPTION 'the row % of % cannot be marked: something, such as a trigger, keeps its % NULL', one,
                farmhand.table_name(tbl), quote_ident(tbl->>'dispatch');
        END IF;
        made := coalesce(cardinality(runs), 0);
        more := made >= room;
    EXCEPTION
        WHEN lock_not_available OR deadlock_detected THEN
            made := 0;
            busy := true;
        WHEN OTHERS THEN
            -- A server that became a standby, and not the table's problem: whoever asks goes to another.
            IF SQLSTATE = '25006' AND current_setting('transaction_read_only')::boolean THEN
                RAISE;
            END IF;
            made := 0;
            problem := SQLERRM;
    END;
    IF problem IS NOT NULL AND tbl IS NOT NULL THEN
        problem := coalesce((SELECT c.problem || ' (' || c.fix || ')' FROM farmhand.check_table(tbl) c
            WHERE c.fatal LIMIT 1), problem);
    END IF;
    RETURN NEXT;
END
$$;
