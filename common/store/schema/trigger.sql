-- Triggers: jobs that run when others have ended.

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

-- Notes ends for those that follow the jobs. A child with one parent hears only of ends that trigger it.
CREATE FUNCTION farmhand.note_ends(ended farmhand.run_end[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO farmhand.triggering (child, parent, run_id, firing, due_at, by_hand)
    SELECT t.child, e.job_id, e.run_id, e.firing, e.due_at, e.by_hand
    FROM unnest(ended) e
    JOIN farmhand.trigger_edge t ON t.parent = e.job_id
    WHERE t.several OR e.firing IS NOT NULL OR CASE t.on_end
        WHEN 'success' THEN e.state = 'succeeded'
        WHEN 'failure' THEN e.state IN ('failed', 'timed_out', 'lost')
        ELSE e.state <> 'skipped' END
    ORDER BY t.child, e.run_id;
END
$$;

-- These are called for each end that waits. A plan of their partitions costs more than what it finds, so it is kept.

-- How a firing ended, by the newest run of each of its shards; NULL while one of them lives.
CREATE FUNCTION farmhand.firing_end(run bigint, firing bigint) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN (
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
        ) s);
END
$$;

-- The parameters that a run had: those it was given, and the defaults of its definition.
CREATE FUNCTION farmhand.run_params(job_id text, rev bigint, given jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN (
        SELECT coalesce((SELECT jsonb_object_agg(p.key, p.value->'default')
            FROM farmhand.job_revision v, jsonb_each(v.spec->'params') p
            WHERE v.job_id = run_params.job_id AND v.rev = run_params.rev
                AND jsonb_typeof(p.value->'default') <> 'null'), '{}') || run_params.given);
END
$$;

-- Whether a job, or one that leads to it, may still come to have a run at an instant: because something of them is
-- under way there, or, with by_schedule, because a schedule has not got so far.
CREATE FUNCTION farmhand.may_come(job text, instant timestamptz, by_schedule boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN (
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
                OR EXISTS (SELECT FROM farmhand.triggering t WHERE t.child = j.job_id AND t.due_at = may_come.instant))));
END
$$;

-- How a parent stands towards the instant of another parent's run: its run at that instant if there is one; if
-- not, its latest run, unless both have instants of their own. "wait" says why the answer is still to come.
CREATE FUNCTION farmhand.parent_stands(parent text, instant timestamptz, by_hand boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    timed boolean;
    live record;
    r record;
BEGIN
    SELECT l.run_id INTO live FROM farmhand.run_live l
        WHERE l.job_id = parent AND l.due_at = instant ORDER BY l.run_id + 0 DESC LIMIT 1;
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
            SELECT h.* FROM farmhand.run_history h WHERE h.job_id >= parent AND h.job_id <= parent ORDER BY h.job_id, h.run_id DESC LIMIT 1000) h
        WHERE h.first_due <= instant AND h.last_due >= instant AND h.state <> 'skipped' LIMIT 1;
    -- After a backfill there are more that ended since.
    IF NOT FOUND AND (SELECT h.finished_at FROM farmhand.run_history h WHERE h.job_id >= parent AND h.job_id <= parent
            ORDER BY h.job_id, h.run_id DESC OFFSET 1000 LIMIT 1) >= instant THEN
        SELECT * INTO r FROM (
                SELECT h.* FROM farmhand.run_history h WHERE h.job_id >= parent AND h.job_id <= parent ORDER BY h.job_id, h.run_id DESC LIMIT 5000) h
            WHERE h.first_due <= instant AND h.last_due >= instant AND h.state <> 'skipped' LIMIT 1;
    END IF;
    IF NOT FOUND AND timed THEN
        SELECT * INTO r FROM (
                SELECT h.* FROM farmhand.run_history h WHERE h.job_id >= parent AND h.job_id <= parent ORDER BY h.job_id, h.run_id DESC LIMIT 1000) h
            WHERE h.first_due <= instant AND h.last_due >= instant LIMIT 1;
        IF NOT FOUND THEN
            RETURN jsonb_build_object('parent', parent, 'end', 'none');
        END IF;
    ELSIF NOT FOUND THEN
        SELECT h.* INTO r FROM farmhand.run_history h
            WHERE h.job_id >= parent AND h.job_id <= parent AND h.state <> 'skipped' ORDER BY h.job_id, h.run_id DESC LIMIT 1;
        SELECT l.run_id INTO live FROM farmhand.run_live l WHERE l.job_id = parent ORDER BY l.run_id + 0 DESC LIMIT 1;
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
