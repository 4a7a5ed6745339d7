-- Triggers: jobs that run when others have ended. Firings: the runs that one instant, submission or triggering
-- made together.

-- firing: the first run of several that were made together; NULL for a run that was made alone.
-- parents: of a triggered run, the run of each parent that it follows, by the parent's name.
-- by_hand: its instant is of no schedule: somebody submitted it, or the run that triggered it.
ALTER TABLE farmhand.run_live
    ADD COLUMN firing bigint,
    ADD COLUMN parents jsonb,
    ADD COLUMN by_hand boolean NOT NULL DEFAULT false;
ALTER TABLE farmhand.run_history
    ADD COLUMN firing bigint,
    ADD COLUMN parents jsonb,
    ADD COLUMN by_hand boolean NOT NULL DEFAULT false;
UPDATE farmhand.run_live SET by_hand = true WHERE kind = 'submitted';
CREATE INDEX run_live_firing ON farmhand.run_live (firing) WHERE firing IS NOT NULL;
CREATE INDEX run_history_firing ON farmhand.run_history (firing) WHERE firing IS NOT NULL;

-- The history row of a live run that ends. "ending" carries what the holder measured, by column name.
CREATE OR REPLACE FUNCTION farmhand.ended(r farmhand.run_live, final text, why text, who text,
    ending jsonb DEFAULT '{}')
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
    (ending->>'output_dropped')::bigint, r.due_at, r.due_at, 1, r.key,
    r.firing, r.parents, r.by_hand)::farmhand.run_history
$$;

CREATE OR REPLACE VIEW farmhand.run AS
SELECT run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
    state, running_at, session, attempt, fence, retries, takeovers,
    CASE WHEN state = 'running' THEN reason
        WHEN gate IN ('pool', 'lock', 'rate') THEN coalesce(CASE WHEN ready_at <= statement_timestamp()
            THEN farmhand.waits_for(job_id, rev, node, run_id, priority, ready_at) END, reason)
        ELSE coalesce(reason, gate) END AS reason,
    params, idempotency_key, submitted_by, parent_run,
    cancel_requested, created_at, claimed_at, started_at, NULL::timestamptz AS finished_at,
    NULL::integer AS exit_code, NULL::integer AS signal, NULL::bigint AS cpu_ms,
    NULL::bigint AS max_rss_bytes, NULL::bigint AS output_bytes, NULL::bigint AS output_dropped,
    due_at AS first_due, due_at AS last_due, 1::bigint AS count, key,
    firing, parents, by_hand
FROM farmhand.run_live
UNION ALL
SELECT run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
    state, running_at, session, attempt, fence, retries, takeovers,
    reason, params, idempotency_key, submitted_by, parent_run,
    cancel_by IS NOT NULL, created_at, claimed_at, started_at, finished_at,
    exit_code, signal, cpu_ms, max_rss_bytes, output_bytes, output_dropped,
    first_due, last_due, count, key,
    firing, parents, by_hand
FROM farmhand.run_history;

CREATE OR REPLACE FUNCTION farmhand.submit(
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
    first_run bigint := nextval('farmhand.run_id_seq');
    made_runs bigint;
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
    IF jsonb_typeof(j.spec->'table') = 'object' THEN
        RAISE EXCEPTION 'job "%" runs for rows of a table: set % of the row to NULL', submit.job_id,
            quote_ident(j.spec->'table'->>'dispatch') USING ERRCODE = '55000';
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
            priority, placement, on_lost, hold_ms, overlap, hard_ms, params, idempotency_key, submitted_by,
            firing, by_hand)
        SELECT CASE WHEN p.nth = 1 THEN first_run ELSE nextval('farmhand.run_id_seq') END,
            j.job_id, j.rev, 'submitted', p.instance, j.instances, p.node, submit.due_at, submit.due_at,
            j.priority, j.placement, j.on_lost, j.hold_ms, 'allow', j.hard_ms, submit.params,
            submit.idempotency_key, session_user,
            CASE WHEN j.instances > 1 OR j.each_node THEN first_run END, true
        FROM place p ORDER BY p.nth
        RETURNING run_id
    )
    SELECT count(*) INTO made_runs FROM made;
    IF made_runs = 0 THEN
        RAISE EXCEPTION 'job "%" runs on each node, and no node is ready for it', submit.job_id
            USING ERRCODE = '55000';
    END IF;
    PERFORM pg_notify('farmhand', json_build_object('due', first_run, 'job', submit.job_id, 'runs', made_runs)::text);
    RETURN first_run;
END
$$;

-- Which job's ends trigger which, as the present definitions say; written by apply.
CREATE TABLE farmhand.trigger_edge (
    parent text NOT NULL,
    child text NOT NULL,
    -- The parent's place in the child's list.
    nth integer NOT NULL,
    on_end text NOT NULL CHECK (on_end IN ('success', 'failure', 'finish')),
    -- Whether the child has further parents.
    several boolean NOT NULL,
    PRIMARY KEY (child, parent)
);
CREATE INDEX trigger_edge_parent ON farmhand.trigger_edge (parent);

-- Ends of parents that have not been looked at, or that wait for another parent. Written with the end itself;
-- whoever makes the child's run, or records why there is none, deletes them in the same transaction.
CREATE TABLE farmhand.triggering (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    child text NOT NULL,
    parent text NOT NULL,
    run_id bigint NOT NULL,
    firing bigint,
    due_at timestamptz NOT NULL,
    by_hand boolean NOT NULL,
    ended_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- Not to be looked at before, unless something else ends.
    ready_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- What it waits for, for people.
    waits jsonb
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX triggering_child ON farmhand.triggering (child, id);

-- One place for every statement that ends runs. A child with one parent hears only of ends that trigger it.
CREATE FUNCTION farmhand.note_ends() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO farmhand.triggering (child, parent, run_id, firing, due_at, by_hand)
    SELECT t.child, e.job_id, e.run_id, e.firing, e.due_at, e.by_hand
    FROM ended e
    JOIN farmhand.trigger_edge t ON t.parent = e.job_id
    WHERE t.several OR e.firing IS NOT NULL OR CASE t.on_end
        WHEN 'success' THEN e.state = 'succeeded'
        WHEN 'failure' THEN e.state IN ('failed', 'timed_out', 'lost')
        ELSE e.state <> 'skipped' END
    ORDER BY t.child, e.run_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER note_ends AFTER INSERT ON farmhand.run_history
    REFERENCING NEW TABLE AS ended FOR EACH STATEMENT EXECUTE FUNCTION farmhand.note_ends();

-- How a firing ended, by the newest run of each of its shards; NULL while one of them lives.
CREATE FUNCTION farmhand.firing_end(run bigint, firing bigint) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT CASE
    WHEN firing_end.firing IS NOT NULL
        AND EXISTS (SELECT FROM farmhand.run_live r WHERE r.firing = firing_end.firing) THEN NULL
    WHEN bool_and(s.state = 'succeeded') THEN 'success'
    WHEN bool_or(s.state IN ('failed', 'timed_out', 'lost')) THEN 'failure'
    WHEN bool_or(s.state = 'cancelled') THEN 'cancelled'
    WHEN bool_or(s.state = 'skipped') THEN 'skipped'
    -- Its history has been dropped.
    ELSE 'none' END
FROM (
    SELECT DISTINCT ON (h.instance, h.node) h.state FROM (
        SELECT * FROM farmhand.run_history WHERE firing_end.firing IS NULL AND run_id = firing_end.run
        UNION ALL
        SELECT * FROM farmhand.run_history WHERE run_history.firing = firing_end.firing
    ) h ORDER BY h.instance, h.node, h.run_id DESC
) s
$$;

-- The parameters that a run had: those it was given, and the defaults of its definition.
CREATE FUNCTION farmhand.run_params(job_id text, rev bigint, given jsonb) RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT coalesce((SELECT jsonb_object_agg(p.key, p.value->'default')
    FROM farmhand.job_revision v, jsonb_each(v.spec->'params') p
    WHERE v.job_id = run_params.job_id AND v.rev = run_params.rev
        AND jsonb_typeof(p.value->'default') <> 'null'), '{}') || run_params.given
$$;

-- Whether a job, or one that leads to it, may still come to have a run at an instant: because something of them is
-- under way there, or, with by_schedule, because a schedule has not got so far.
CREATE FUNCTION farmhand.may_come(job text, instant timestamptz, by_schedule boolean) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
WITH RECURSIVE up(job_id) AS (
    SELECT may_come.job
    UNION
    SELECT e.parent FROM up JOIN farmhand.trigger_edge e ON e.child = up.job_id
)
SELECT EXISTS (
    SELECT FROM up JOIN farmhand.job j ON j.job_id = up.job_id
    WHERE NOT j.deleted AND (
        (may_come.by_schedule AND j.enabled AND j.scheduled AND (j.next_run <= may_come.instant
            OR (j.paused AND coalesce(j.decided_until, '-infinity') < may_come.instant)))
        OR EXISTS (SELECT FROM farmhand.run_live r WHERE r.job_id = j.job_id AND r.due_at = may_come.instant)
        OR EXISTS (SELECT FROM farmhand.triggering t WHERE t.child = j.job_id AND t.due_at = may_come.instant)))
$$;

-- How a parent stands towards the instant of another parent's run: its run at that instant if there is one; if
-- not, its latest run, unless both have instants of their own. "wait" says why the answer is still to come.
CREATE FUNCTION farmhand.parent_stands(parent text, instant timestamptz, by_hand boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    timed boolean;
    live record;
    r record;
BEGIN
    SELECT l.run_id INTO live FROM farmhand.run_live l
        WHERE l.job_id = parent AND l.due_at = instant ORDER BY l.run_id DESC LIMIT 1;
    IF FOUND THEN
        RETURN jsonb_build_object('parent', parent, 'wait', 'running', 'run_id', live.run_id);
    END IF;
    timed := NOT by_hand AND (
        EXISTS (SELECT FROM farmhand.trigger_edge e WHERE e.child = parent_stands.parent)
        OR EXISTS (SELECT FROM farmhand.job j JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
            WHERE j.job_id = parent_stands.parent AND v.spec->'schedule' <> '[]'));
    IF farmhand.may_come(parent, instant, timed) THEN
        RETURN jsonb_build_object('parent', parent, 'wait', 'to_come');
    END IF;
    -- Newest first, so that the usual case reads a row or two; a run of long ago counts as none.
    SELECT * INTO r FROM (
            SELECT h.* FROM farmhand.run_history h WHERE h.job_id = parent ORDER BY h.run_id DESC LIMIT 1000) h
        WHERE h.first_due <= instant AND h.last_due >= instant AND h.state <> 'skipped' LIMIT 1;
    IF NOT FOUND AND timed THEN
        SELECT * INTO r FROM (
                SELECT h.* FROM farmhand.run_history h WHERE h.job_id = parent ORDER BY h.run_id DESC LIMIT 1000) h
            WHERE h.first_due <= instant AND h.last_due >= instant LIMIT 1;
        IF NOT FOUND THEN
            RETURN jsonb_build_object('parent', parent, 'end', 'none');
        END IF;
    ELSIF NOT FOUND THEN
        SELECT h.* INTO r FROM farmhand.run_history h
            WHERE h.job_id = parent AND h.state <> 'skipped' ORDER BY h.run_id DESC LIMIT 1;
        SELECT l.run_id INTO live FROM farmhand.run_live l WHERE l.job_id = parent ORDER BY l.run_id DESC LIMIT 1;
        IF live.run_id > coalesce(r.run_id, 0) THEN
            RETURN jsonb_build_object('parent', parent, 'wait', 'running', 'run_id', live.run_id);
        END IF;
        IF r.run_id IS NULL THEN
            RETURN jsonb_build_object('parent', parent, 'wait', 'first');
        END IF;
    END IF;
    RETURN jsonb_build_object('parent', parent, 'run_id', r.run_id, 'firing', r.firing,
        'end', farmhand.firing_end(r.run_id, r.firing),
        'params', farmhand.run_params(r.job_id, r.rev, r.params));
END
$$;
