-- Tables, views and functions of the foundation. schema_version itself is made by the migrator.

-- Which timelines are open for claims: after a failover the new primary's must be opened first.
CREATE TABLE farmhand.timeline (
    tli bigint PRIMARY KEY,
    opened_by text NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION farmhand.current_timeline() RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT ('x' || lpad(substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 16, '0'))::bit(64)::bigint $$;

INSERT INTO farmhand.timeline (tli, opened_by) VALUES (farmhand.current_timeline(), 'migrate');

CREATE TABLE farmhand.node (
    address text PRIMARY KEY CHECK (address <> ''),
    name text NOT NULL,
    session bigint NOT NULL,
    life uuid NOT NULL,
    open boolean NOT NULL,
    condemned boolean NOT NULL DEFAULT false,
    cordoned boolean NOT NULL DEFAULT false,
    draining boolean NOT NULL DEFAULT false,
    beat bigint NOT NULL DEFAULT 0,
    ttl_ms bigint NOT NULL CHECK (ttl_ms > 0),
    lease_until timestamptz NOT NULL,
    slots integer NOT NULL CHECK (slots >= 0),
    labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    state text NOT NULL GENERATED ALWAYS AS (CASE
        WHEN NOT open THEN 'closed'
        WHEN condemned THEN 'condemned'
        WHEN draining THEN 'draining'
        WHEN cordoned THEN 'cordoned'
        ELSE 'ready' END) STORED,
    -- Makes a change of session a key update: FOR KEY SHARE then blocks it, and never a renewal.
    UNIQUE (address, session)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- One row, updated by every change of a definition: committing order is the order of seq, so that an
-- agent which has read up to n has missed nothing below n.
CREATE TABLE farmhand.job_seq (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL
);
INSERT INTO farmhand.job_seq (seq) VALUES (0);

-- Narrow, because every firing rewrites it; the definition itself is in job_revision.
CREATE TABLE farmhand.job (
    job_id text PRIMARY KEY CHECK (job_id <> ''),
    rev bigint NOT NULL,
    seq bigint NOT NULL,
    enabled boolean NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    paused_by text,
    paused_at timestamptz,
    pause_reason text,
    deleted boolean NOT NULL DEFAULT false,
    scheduled boolean NOT NULL,
    next_run timestamptz,
    decided_until timestamptz,
    overlap text NOT NULL CHECK (overlap IN ('skip', 'queue', 'replace', 'allow')),
    on_lost text NOT NULL CHECK (on_lost IN ('rerun', 'fail')),
    priority integer NOT NULL,
    hold_ms bigint NOT NULL CHECK (hold_ms >= 0),
    hard_ms bigint CHECK (hard_ms > 0),
    placement jsonb,
    instances integer NOT NULL CHECK (instances > 0),
    each_node boolean NOT NULL,
    source text NOT NULL,
    applied_by text NOT NULL,
    applied_at timestamptz NOT NULL,
    CHECK (next_run IS NOT NULL OR NOT (enabled AND scheduled AND NOT paused AND NOT deleted))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX job_next_run ON farmhand.job (next_run)
    WHERE enabled AND scheduled AND NOT paused AND NOT deleted;
CREATE INDEX job_by_seq ON farmhand.job (seq);

CREATE TABLE farmhand.job_revision (
    job_id text NOT NULL,
    rev bigint NOT NULL,
    spec jsonb NOT NULL CHECK (jsonb_typeof(spec) = 'object'),
    source text NOT NULL,
    applied_by text NOT NULL,
    applied_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, rev)
);

-- What people ask about a job; apart from job, because firing skips a locked job row.
CREATE TABLE farmhand.job_stat (
    job_id text PRIMARY KEY,
    last_run_started timestamptz,
    last_finished timestamptz,
    last_state text,
    last_success timestamptz,
    consecutive_failures integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

CREATE SEQUENCE farmhand.run_id_seq;
CREATE SEQUENCE farmhand.fence_seq;
CREATE SEQUENCE farmhand.event_id_seq;

CREATE TABLE farmhand.run_live (
    run_id bigint PRIMARY KEY DEFAULT nextval('farmhand.run_id_seq'),
    job_id text NOT NULL,
    rev bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('scheduled', 'submitted', 'triggered', 'backfill', 'retry', 'table',
        'continuous', 'stream', 'flow')),
    instance integer NOT NULL DEFAULT 0,
    instances integer NOT NULL DEFAULT 1,
    node text,
    due_at timestamptz NOT NULL,
    ready_at timestamptz NOT NULL,
    gate text CHECK (gate IN ('overlap', 'pool', 'lock', 'rate')),
    reason text,
    state text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'running')),
    running_at text,
    session bigint,
    attempt integer NOT NULL DEFAULT 0,
    fence bigint,
    retries integer NOT NULL DEFAULT 0,
    takeovers integer NOT NULL DEFAULT 0,
    priority integer NOT NULL DEFAULT 0,
    placement jsonb,
    on_lost text NOT NULL DEFAULT 'rerun' CHECK (on_lost IN ('rerun', 'fail')),
    hold_ms bigint NOT NULL DEFAULT 0,
    overlap text NOT NULL DEFAULT 'allow' CHECK (overlap IN ('skip', 'queue', 'replace', 'allow')),
    hard_ms bigint,
    params jsonb NOT NULL DEFAULT '{}',
    idempotency_key text,
    submitted_by text,
    parent_run bigint,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_at timestamptz,
    started_at timestamptz,
    cancel_requested boolean NOT NULL DEFAULT false,
    cancel_by text,
    CHECK ((state = 'running') = (running_at IS NOT NULL)),
    CHECK ((state = 'running') = (session IS NOT NULL)),
    CHECK (state = 'due' OR (attempt > 0 AND fence IS NOT NULL AND claimed_at IS NOT NULL)),
    CHECK (state = 'due' OR gate IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2);
CREATE UNIQUE INDEX run_live_scheduled ON farmhand.run_live (job_id, due_at, instance, coalesce(node, ''))
    WHERE kind = 'scheduled';
CREATE INDEX run_live_claim ON farmhand.run_live (priority DESC, ready_at, run_id)
    WHERE state = 'due' AND gate IS NULL;
CREATE INDEX run_live_held ON farmhand.run_live (running_at, session) WHERE state = 'running';
CREATE INDEX run_live_hold ON farmhand.run_live (running_at, session) WHERE state = 'running' AND hold_ms > 0;
CREATE INDEX run_live_gated ON farmhand.run_live (job_id, run_id) WHERE gate = 'overlap';
CREATE INDEX run_live_job ON farmhand.run_live (job_id);

CREATE TABLE farmhand.run_history (
    run_id bigint NOT NULL,
    job_id text NOT NULL,
    rev bigint NOT NULL,
    kind text NOT NULL,
    instance integer NOT NULL,
    instances integer NOT NULL,
    node text,
    due_at timestamptz NOT NULL,
    ready_at timestamptz NOT NULL,
    state text NOT NULL CHECK (state IN ('succeeded', 'failed', 'timed_out', 'cancelled', 'lost', 'skipped')),
    reason text CHECK (state <> 'skipped' OR reason IS NOT NULL),
    -- Who ended it: a holder that repeats its finish may be told "done" only if it was the holder.
    ended_by text NOT NULL CHECK (ended_by IN ('holder', 'takeover', 'cancel', 'schedule')),
    running_at text,
    session bigint,
    attempt integer NOT NULL,
    fence bigint,
    retries integer NOT NULL,
    takeovers integer NOT NULL,
    params jsonb NOT NULL,
    idempotency_key text,
    submitted_by text,
    parent_run bigint,
    cancel_by text,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    exit_code integer,
    signal integer,
    cpu_ms bigint,
    max_rss_bytes bigint,
    output_bytes bigint,
    output_dropped bigint,
    -- A fold of neighbours: count due instants in [first_due, last_due].
    first_due timestamptz NOT NULL,
    last_due timestamptz NOT NULL,
    count bigint NOT NULL DEFAULT 1 CHECK (count > 0)
) PARTITION BY RANGE (finished_at);
CREATE INDEX run_history_run ON farmhand.run_history (run_id);
CREATE INDEX run_history_job ON farmhand.run_history (job_id, run_id DESC);
CREATE TABLE farmhand.run_history_default PARTITION OF farmhand.run_history DEFAULT;

-- Attempts that ended without ending their run.
CREATE TABLE farmhand.attempt (
    run_id bigint NOT NULL,
    job_id text NOT NULL,
    attempt integer NOT NULL,
    address text NOT NULL,
    session bigint NOT NULL,
    fence bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    started_at timestamptz,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('failed', 'timed_out', 'lost', 'released', 'never_started')),
    ended_by text NOT NULL CHECK (ended_by IN ('holder', 'takeover')),
    reason text,
    exit_code integer,
    signal integer,
    cpu_ms bigint,
    max_rss_bytes bigint,
    output_bytes bigint,
    output_dropped bigint
) PARTITION BY RANGE (ended_at);
CREATE INDEX attempt_run ON farmhand.attempt (run_id, attempt);
CREATE TABLE farmhand.attempt_default PARTITION OF farmhand.attempt DEFAULT;

-- Partitioned by the database's clock; "at" is the agent's and may be wrong.
CREATE TABLE farmhand.run_log (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    seq bigint NOT NULL,
    stream text NOT NULL CHECK (stream IN ('stdout', 'stderr', 'agent')),
    at timestamptz NOT NULL,
    stored_at timestamptz NOT NULL,
    chunk bytea NOT NULL
) PARTITION BY RANGE (stored_at);
CREATE INDEX run_log_run ON farmhand.run_log (run_id, attempt, seq);
CREATE TABLE farmhand.run_log_default PARTITION OF farmhand.run_log DEFAULT;

CREATE TABLE farmhand.event (
    event_id bigint NOT NULL DEFAULT nextval('farmhand.event_id_seq'),
    at timestamptz NOT NULL,
    kind text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('debug', 'info', 'warning', 'error')),
    job_id text,
    run_id bigint,
    attempt integer,
    address text,
    session bigint,
    fence bigint,
    detail jsonb NOT NULL DEFAULT '{}'
) PARTITION BY RANGE (at);
CREATE INDEX event_id ON farmhand.event (event_id);
CREATE INDEX event_run ON farmhand.event (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE farmhand.event_default PARTITION OF farmhand.event DEFAULT;

CREATE TABLE farmhand.submission (
    job_id text NOT NULL,
    idempotency_key text NOT NULL,
    run_id bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, idempotency_key)
);

-- The history row of a live run that ends. "ending" carries what the holder measured, by column name.
CREATE FUNCTION farmhand.ended(r farmhand.run_live, final text, why text, who text, ending jsonb DEFAULT '{}')
RETURNS farmhand.run_history
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT ROW(r.run_id, r.job_id, r.rev, r.kind, r.instance, r.instances, r.node, r.due_at, r.ready_at,
    final, why, who, r.running_at, r.session, r.attempt, r.fence, r.retries, r.takeovers, r.params,
    r.idempotency_key, r.submitted_by, r.parent_run, r.cancel_by, r.created_at, r.claimed_at,
    coalesce((ending->>'started_at')::timestamptz, r.started_at), statement_timestamp(),
    (ending->>'exit_code')::integer, (ending->>'signal')::integer, (ending->>'cpu_ms')::bigint,
    (ending->>'max_rss_bytes')::bigint, (ending->>'output_bytes')::bigint,
    (ending->>'output_dropped')::bigint, r.due_at, r.due_at, 1)::farmhand.run_history
$$;

CREATE VIEW farmhand.run AS
SELECT run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
    state, running_at, session, attempt, fence, retries, takeovers,
    coalesce(reason, gate) AS reason, params, idempotency_key, submitted_by, parent_run,
    cancel_requested, created_at, claimed_at, started_at, NULL::timestamptz AS finished_at,
    NULL::integer AS exit_code, NULL::integer AS signal, NULL::bigint AS cpu_ms,
    NULL::bigint AS max_rss_bytes, NULL::bigint AS output_bytes, NULL::bigint AS output_dropped,
    due_at AS first_due, due_at AS last_due, 1::bigint AS count
FROM farmhand.run_live
UNION ALL
SELECT run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
    state, running_at, session, attempt, fence, retries, takeovers,
    reason, params, idempotency_key, submitted_by, parent_run,
    cancel_by IS NOT NULL, created_at, claimed_at, started_at, finished_at,
    exit_code, signal, cpu_ms, max_rss_bytes, output_bytes, output_dropped,
    first_due, last_due, count
FROM farmhand.run_history;

CREATE VIEW farmhand.job_status AS
SELECT j.job_id, r.running_at, s.last_run_started, j.next_run,
    CASE WHEN NOT j.enabled THEN 'disabled' WHEN j.paused THEN 'paused' ELSE 'enabled' END AS state,
    s.last_state, s.last_finished, s.last_success, coalesce(s.consecutive_failures, 0) AS consecutive_failures,
    j.rev, j.paused_by, j.paused_at, j.pause_reason
FROM farmhand.job j
LEFT JOIN farmhand.job_stat s USING (job_id)
LEFT JOIN LATERAL (SELECT l.running_at FROM farmhand.run_live l
    WHERE l.job_id = j.job_id AND l.state = 'running' ORDER BY l.claimed_at DESC LIMIT 1) r ON true
WHERE NOT j.deleted;

CREATE FUNCTION farmhand.submit(
    job_id text,
    params jsonb DEFAULT '{}',
    due_at timestamptz DEFAULT now(),
    idempotency_key text DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    j record;
    wanted jsonb;
    given record;
    kind text;
    first_run bigint;
BEGIN
    IF submit.params IS NULL OR jsonb_typeof(submit.params) <> 'object' THEN
        RAISE EXCEPTION 'params of job "%" must be a JSON object', submit.job_id USING ERRCODE = '22023';
    END IF;
    SELECT job.*, v.spec INTO j
        FROM farmhand.job JOIN farmhand.job_revision v USING (job_id, rev)
        WHERE job.job_id = submit.job_id AND NOT job.deleted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no job "%"', submit.job_id USING ERRCODE = 'P0002';
    END IF;
    IF NOT j.enabled THEN
        RAISE EXCEPTION 'job "%" is not enabled', submit.job_id USING ERRCODE = '55000';
    END IF;

    wanted := coalesce(j.spec->'params', '{}');
    FOR given IN SELECT * FROM jsonb_each(submit.params) LOOP
        kind := wanted->given.key->>'type';
        IF kind IS NULL THEN
            RAISE EXCEPTION 'job "%" has no parameter "%"', submit.job_id, given.key USING ERRCODE = '22023';
        END IF;
        IF (CASE kind
                WHEN 'integer' THEN jsonb_typeof(given.value) <> 'number' OR (given.value #>> '{}')::numeric % 1 <> 0
                WHEN 'number' THEN jsonb_typeof(given.value) <> 'number'
                WHEN 'boolean' THEN jsonb_typeof(given.value) <> 'boolean'
                ELSE jsonb_typeof(given.value) <> 'string' END) THEN
            RAISE EXCEPTION 'parameter "%" of job "%" must be of type %, not %',
                given.key, submit.job_id, kind, given.value USING ERRCODE = '22023';
        END IF;
    END LOOP;
    FOR given IN SELECT * FROM jsonb_each(wanted) LOOP
        IF (given.value->>'required')::boolean AND NOT submit.params ? given.key THEN
            RAISE EXCEPTION 'job "%" needs the parameter "%"', submit.job_id, given.key USING ERRCODE = '22023';
        END IF;
    END LOOP;

    IF submit.idempotency_key IS NOT NULL THEN
        first_run := nextval('farmhand.run_id_seq');
        INSERT INTO farmhand.submission AS s (job_id, idempotency_key, run_id)
            VALUES (submit.job_id, submit.idempotency_key, first_run) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            SELECT s.run_id INTO STRICT first_run FROM farmhand.submission s
                WHERE s.job_id = submit.job_id AND s.idempotency_key = submit.idempotency_key;
            RETURN first_run;
        END IF;
    END IF;

    WITH place AS (
        SELECT n.address AS node, i AS instance, row_number() OVER (ORDER BY n.address, i) AS nth
        FROM generate_series(0, j.instances - 1) i
        LEFT JOIN farmhand.node n ON j.each_node AND n.open AND NOT n.cordoned AND NOT n.draining
            AND (j.placement IS NULL OR n.labels @> j.placement)
        WHERE NOT j.each_node OR n.address IS NOT NULL
    ), made AS (
        INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
            priority, placement, on_lost, hold_ms, overlap, hard_ms, params, idempotency_key, submitted_by)
        SELECT CASE WHEN p.nth = 1 THEN coalesce(first_run, nextval('farmhand.run_id_seq'))
                ELSE nextval('farmhand.run_id_seq') END,
            j.job_id, j.rev, 'submitted', p.instance, j.instances, p.node, submit.due_at, submit.due_at,
            j.priority, j.placement, j.on_lost, j.hold_ms, 'allow', j.hard_ms, submit.params,
            submit.idempotency_key, session_user
        FROM place p ORDER BY p.nth
        RETURNING run_id
    )
    SELECT min(run_id) INTO first_run FROM made;
    IF first_run IS NULL THEN
        RAISE EXCEPTION 'job "%" runs on each node, and no node is ready for it', submit.job_id
            USING ERRCODE = '55000';
    END IF;
    PERFORM pg_notify('farmhand', json_build_object('due', first_run, 'job', submit.job_id)::text);
    RETURN first_run;
END
$$;
REVOKE ALL ON FUNCTION farmhand.submit(text, jsonb, timestamptz, text) FROM PUBLIC;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'farmhand_submitter') THEN
        CREATE ROLE farmhand_submitter NOLOGIN;
    END IF;
EXCEPTION
    -- Another database's migration made it meanwhile, or only an administrator may.
    WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
END
$$;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'farmhand_submitter') THEN
        GRANT USAGE ON SCHEMA farmhand TO farmhand_submitter;
        GRANT EXECUTE ON FUNCTION farmhand.submit(text, jsonb, timestamptz, text) TO farmhand_submitter;
    END IF;
END
$$;

-- Weekly partitions (from Monday, UTC) of the four histories, this week and weeks_ahead more.
CREATE FUNCTION farmhand.ensure_partitions(weeks_ahead integer) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE
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

CREATE VIEW farmhand.history_partition AS
SELECT c.relname::text AS name, p.relname::text AS parent,
    (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$TO \('([^']+)'\)$re$))[1]::timestamptz AS until
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_class p ON p.oid = i.inhparent
JOIN pg_namespace n ON n.oid = p.relnamespace
WHERE n.nspname = 'farmhand' AND p.relkind = 'p' AND c.relkind = 'r';

-- Drops partitions that ended longer ago than their kind is kept, in days.
CREATE FUNCTION farmhand.drop_partitions(runs integer, logs integer, events integer) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms'
AS $$
DECLARE
    part record;
BEGIN
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

-- job_stat follows run_history, whichever statement ended the run.
CREATE FUNCTION farmhand.count_ends() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO farmhand.job_stat AS s (job_id, last_run_started, last_finished, last_state, last_success,
        consecutive_failures)
    SELECT e.job_id, max(e.started_at), max(e.finished_at), (array_agg(e.state ORDER BY e.nth DESC))[1],
        max(e.finished_at) FILTER (WHERE e.state = 'succeeded'),
        count(*) FILTER (WHERE e.state IN ('failed', 'timed_out', 'lost') AND e.nth > e.last_good)
    FROM (SELECT m.*, coalesce(max(m.nth) FILTER (WHERE m.state = 'succeeded') OVER (PARTITION BY m.job_id), 0)
                AS last_good
          FROM (SELECT job_id, state, started_at, finished_at,
                    row_number() OVER (PARTITION BY job_id ORDER BY finished_at, run_id) AS nth
                FROM ended WHERE state <> 'skipped') m) e
    GROUP BY e.job_id ORDER BY e.job_id
    ON CONFLICT (job_id) DO UPDATE SET
        last_run_started = greatest(s.last_run_started, excluded.last_run_started),
        last_finished = excluded.last_finished,
        last_state = excluded.last_state,
        last_success = coalesce(excluded.last_success, s.last_success),
        consecutive_failures = excluded.consecutive_failures
            + CASE WHEN excluded.last_success IS NULL THEN s.consecutive_failures ELSE 0 END;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_ends AFTER INSERT ON farmhand.run_history
    REFERENCING NEW TABLE AS ended FOR EACH STATEMENT EXECUTE FUNCTION farmhand.count_ends();
