-- Submitting a run from SQL. The types of parameters are checked here with the grammar that job files and the command
-- line have (core/definition/params.rs): what is wrong is said to whoever submits, not by the run that fails.

-- Durations: numbers with the units w d h m s ms, the largest first, each once; at most a hundred years.
CREATE FUNCTION farmhand.is_duration(given text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT coalesce((
    -- Twenty-one digits are too long in any unit, and still a number.
    SELECT sum(('0' || left(ltrim(u.digits, '0'), 21))::numeric * u.ms) <= 100 * 366 * 86400000::numeric
    FROM regexp_match(given COLLATE "C",
            '^(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?$') m,
        unnest(m, ARRAY[604800000, 86400000, 3600000, 60000, 1000, 1]::numeric[]) AS u(digits, ms)
    WHERE u.digits IS NOT NULL
), false)
$$;

-- Dates of the calendar as YYYY-MM-DD, from the year 0 on, which a date of PostgreSQL's does not know.
CREATE FUNCTION farmhand.is_date(given text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT coalesce((
    SELECT d.day BETWEEN 1 AND CASE
        WHEN d.month = 2 AND d.year % 4 = 0 AND (d.year % 100 <> 0 OR d.year % 400 = 0) THEN 29
        WHEN d.month = 2 THEN 28
        WHEN d.month IN (4, 6, 9, 11) THEN 30
        WHEN d.month BETWEEN 1 AND 12 THEN 31 END
    FROM regexp_match(given COLLATE "C", '^([0-9]{4})-([0-9]{2})-([0-9]{2})$') m,
        LATERAL (SELECT m[1]::integer AS year, m[2]::integer AS month, m[3]::integer AS day) d
), false)
$$;

-- What a value of a parameter's type looks like, unless this is one. A parameter becomes one argument or variable, of which
-- the kernel takes 128 KiB: what is larger is refused here, and not by the attempt that cannot begin.
CREATE FUNCTION farmhand.param_wrong(kind text, given jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT CASE kind
    WHEN 'integer' THEN CASE WHEN CASE WHEN jsonb_typeof(given) <> 'number' THEN false
            WHEN given::text !~ '^-?[0-9]+$' THEN false
            ELSE given::text::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 END
        THEN NULL ELSE 'Write a whole number of 64 bits, without quotes: 5.' END
    WHEN 'number' THEN CASE WHEN CASE WHEN jsonb_typeof(given) <> 'number' THEN false
            ELSE abs(given::text::numeric) <= 1e308 END
        THEN NULL ELSE 'Write a number of at most 1e308, without quotes: 2.5.' END
    WHEN 'boolean' THEN CASE WHEN jsonb_typeof(given) = 'boolean'
        THEN NULL ELSE 'Write true or false, without quotes.' END
    WHEN 'duration' THEN CASE WHEN jsonb_typeof(given) = 'string' AND farmhand.is_duration(given #>> '{}')
        THEN NULL ELSE 'Write a string such as "5m" or "1h30m": numbers with the units w d h m s ms, the largest first.' END
    WHEN 'date' THEN CASE WHEN jsonb_typeof(given) = 'string' AND farmhand.is_date(given #>> '{}')
        THEN NULL ELSE 'Write a string such as "2026-12-31".' END
    WHEN 'string' THEN CASE WHEN jsonb_typeof(given) <> 'string' THEN 'Write a string in double quotes.'
        WHEN octet_length(given #>> '{}') > 65536
            THEN 'Write a string of at most 65536 bytes; put what is longer into a file or a table, and give its name.' END
    ELSE format('This version of the schema knows no parameters of type %s.', kind) END
$$;

-- Raises an error that names what is wrong with the parameters of a run, as its job's definition has them.
CREATE FUNCTION farmhand.check_params(job_id text, declared jsonb, params jsonb) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted jsonb := coalesce(declared, '{}');
    given record;
    kind text;
    wrong text;
BEGIN
    FOR given IN SELECT * FROM jsonb_each(check_params.params) LOOP
        kind := wanted->given.key->>'type';
        IF kind IS NULL THEN
            RAISE EXCEPTION 'job "%" has no parameter "%"', check_params.job_id, given.key USING ERRCODE = '22023',
                HINT = coalesce('Its parameters are ' || (SELECT string_agg(k, ', ' ORDER BY k)
                    FROM jsonb_object_keys(wanted) k) || '.', 'It takes none.');
        END IF;
        wrong := farmhand.param_wrong(kind, given.value);
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'parameter "%" of job "%" must be of type %, not %', given.key, check_params.job_id, kind,
                CASE WHEN length(given.value::text) > 200 THEN left(given.value::text, 200) || '…'
                    ELSE given.value::text END
                USING ERRCODE = '22023', HINT = wrong;
        END IF;
    END LOOP;
    FOR given IN SELECT * FROM jsonb_each(wanted) LOOP
        IF (given.value->>'required')::boolean AND NOT check_params.params ? given.key THEN
            RAISE EXCEPTION 'job "%" needs the parameter "%"', check_params.job_id, given.key USING ERRCODE = '22023',
                HINT = format('It is of type %s and has no default.', given.value->>'type');
        END IF;
    END LOOP;
    RETURN true;
END
$$;

-- Makes a run by hand, which meets the job's other runs as "overlap" says. NULL: it runs beside them, and no row of a job stays
-- locked by whoever submits in a transaction of their own. "runs" is 0 for the repetition of a key; of them "skipped" are recorded as
-- such, and "live" other runs had not ended.
CREATE FUNCTION farmhand.submit_run(job_id text, params jsonb, due_at timestamptz, idempotency_key text, overlap text, by_whom text,
    OUT run_id bigint, OUT runs bigint, OUT skipped bigint, OUT live bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    j record;
    made record;
    due timestamptz := coalesce(submit_run.due_at, now());
BEGIN
    runs := 0;
    skipped := 0;
    live := 0;
    IF submit_run.params IS NULL OR jsonb_typeof(submit_run.params) <> 'object' THEN
        RAISE EXCEPTION 'params of job "%" must be a JSON object', submit_run.job_id USING ERRCODE = '22023',
            HINT = 'Write the parameters by name: {"name": value}.';
    END IF;
    -- What is stored beyond these years no client could read.
    IF submit_run.due_at NOT BETWEEN '1900-01-01 UTC' AND '9999-01-01 UTC' THEN
        RAISE EXCEPTION 'job "%" cannot be due at %', submit_run.job_id, submit_run.due_at USING ERRCODE = '22023',
            HINT = 'due_at is an instant from the year 1900 to the year 9998; leave it out for at once.';
    END IF;
    IF submit_run.overlap IS NOT NULL THEN
        -- Firings and promotions stay out until it is decided who waits for whom.
        PERFORM FROM farmhand.job WHERE job.job_id = submit_run.job_id FOR UPDATE;
    END IF;
    SELECT job.*, v.spec INTO j
        FROM farmhand.job JOIN farmhand.job_revision v USING (job_id, rev)
        WHERE job.job_id = submit_run.job_id AND NOT job.deleted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no job "%"', submit_run.job_id USING ERRCODE = 'P0002';
    END IF;
    -- A repetition is answered whatever has become of the definition since.
    IF submit_run.idempotency_key IS NOT NULL THEN
        SELECT s.run_id INTO run_id FROM farmhand.submission s
            WHERE s.job_id = submit_run.job_id AND s.idempotency_key = submit_run.idempotency_key;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF j.state = 'disabled' THEN
        RAISE EXCEPTION 'job "%" is not enabled', submit_run.job_id USING ERRCODE = '55000';
    END IF;
    IF farmhand.may_make('submit', j.state, j.observe) <> 'run' THEN
        RAISE EXCEPTION 'job "%" observes: nothing of it is executed', submit_run.job_id USING ERRCODE = '55000',
            HINT = 'Take `observe` out of its job file and apply it.';
    END IF;
    IF j.kind = 'table' THEN
        RAISE EXCEPTION 'job "%" runs for rows of a table: set % of the row to NULL', submit_run.job_id,
            quote_ident(j.spec->'table'->>'dispatch') USING ERRCODE = '55000';
    END IF;

    PERFORM farmhand.check_params(submit_run.job_id, j.spec->'params', submit_run.params);

    run_id := nextval('farmhand.run_id_seq');
    IF submit_run.idempotency_key IS NOT NULL THEN
        INSERT INTO farmhand.submission AS s (job_id, idempotency_key, run_id)
            VALUES (submit_run.job_id, submit_run.idempotency_key, submit_run.run_id) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            SELECT s.run_id INTO STRICT run_id FROM farmhand.submission s
                WHERE s.job_id = submit_run.job_id AND s.idempotency_key = submit_run.idempotency_key;
            RETURN;
        END IF;
    END IF;
    IF submit_run.overlap IS NOT NULL THEN
        live := (SELECT count(*) FROM (SELECT FROM farmhand.run_live r
            WHERE r.job_id = submit_run.job_id AND farmhand.overlaps(r) LIMIT 1000) o);
    END IF;
    SELECT m.run_ids, m.skipped INTO STRICT made
        FROM farmhand.make_runs('submit', ARRAY[jsonb_populate_record(NULL::farmhand.want, jsonb_build_object(
            'job_id', submit_run.job_id, 'due', jsonb_build_array(due), 'late_ms', 0, 'overlap', coalesce(submit_run.overlap, 'allow'),
            'first_run', run_id, 'params', submit_run.params, 'made', jsonb_strip_nulls(jsonb_build_object('by_hand', true,
                'submitted_by', coalesce(by_whom, session_user), 'idempotency_key', submit_run.idempotency_key))))]) m;
    IF made.skipped @> '[{"reason": "no_node"}]' THEN
        RAISE EXCEPTION 'job "%" runs on each node, and no node is ready for it', submit_run.job_id
            USING ERRCODE = '55000';
    END IF;
    skipped := jsonb_array_length(made.skipped) * j.instances;
    runs := cardinality(made.run_ids) + skipped;
    IF by_whom IS NOT NULL THEN
        INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, detail) VALUES (statement_timestamp(), 'run_submitted', 'info',
            submit_run.job_id, submit_run.run_id, jsonb_build_object('by', by_whom));
    END IF;
END
$$;
REVOKE ALL ON FUNCTION farmhand.submit_run(text, jsonb, timestamptz, text, text, text) FROM PUBLIC;

CREATE FUNCTION farmhand.submit(
    job_id text,
    params jsonb DEFAULT '{}',
    due_at timestamptz DEFAULT now(),
    idempotency_key text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT s.run_id FROM farmhand.submit_run(job_id, params, due_at, idempotency_key, NULL, NULL) s $$;
REVOKE ALL ON FUNCTION farmhand.submit(text, jsonb, timestamptz, text) FROM PUBLIC;
