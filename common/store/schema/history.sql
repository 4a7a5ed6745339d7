-- Runs that have ended, attempts that ended without ending their run, and how the one becomes the other.
--
-- As few indexes as possible: every end of a run writes each that its row belongs to.

CREATE TABLE farmhand.run_history (
    run_id bigint NOT NULL,
    job_id text NOT NULL,
    rev bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('scheduled', 'submitted', 'triggered', 'backfill', 'retry', 'table',
        'continuous', 'stream', 'flow')),
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
    count bigint NOT NULL DEFAULT 1 CHECK (count > 0),
    -- As in run_live.
    key text,
    firing bigint,
    parents jsonb,
    by_hand boolean NOT NULL DEFAULT false,
    -- From the start of the command to its end, by the clock of the node. NULL: the attempt was lost.
    ran_ms bigint,
    -- As in run_live: what is triggered or repeated has them from here.
    CHECK (params = '{}' OR farmhand.is_readable(params)),
    CHECK (parents IS NULL OR farmhand.is_readable(parents))
) PARTITION BY RANGE (finished_at);
-- One run: what is shown of it, an end that is sent again, what retention drops with it.
CREATE INDEX run_history_run ON farmhand.run_history (run_id);
-- Of a job the newest first: WHERE job_id >= x AND job_id <= x ORDER BY job_id, run_id DESC. Two indexes have the order of the number
-- alone, and for a rare job the planner would walk the other one through the runs of all; no other has this order.
CREATE INDEX run_history_job ON farmhand.run_history (job_id, run_id DESC);
-- The runs of a row of a table: whether a newer one has its row, and its list.
CREATE INDEX run_history_key ON farmhand.run_history (job_id, md5(key)) WHERE key IS NOT NULL;
-- How a firing of several runs ended, and its list. Other ends do not write it.
CREATE INDEX run_history_firing ON farmhand.run_history (firing) WHERE firing IS NOT NULL;

-- By time: the lanes of nodes, and runs that ended within a stretch of time. Ends come in order, so it only grows at
-- its right edge.
CREATE INDEX run_history_finished ON farmhand.run_history (finished_at);

-- Those that lasted long may have ended long after the stretch that is looked at; few runs are in it.
CREATE INDEX run_history_long ON farmhand.run_history (finished_at) WHERE finished_at - claimed_at > interval '10 minutes';

-- What went wrong is what people look for, and most runs do not.
CREATE INDEX run_history_bad ON farmhand.run_history (state, run_id DESC) WHERE state <> 'succeeded';

CREATE TABLE farmhand.run_history_default PARTITION OF farmhand.run_history DEFAULT;
-- Histories have no key of their own: a publication takes their deletes and updates by the whole row.
ALTER TABLE farmhand.run_history REPLICA IDENTITY FULL;
ALTER TABLE farmhand.run_history_default REPLICA IDENTITY FULL;

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
    output_dropped bigint,
    ran_ms bigint
) PARTITION BY RANGE (ended_at);
CREATE INDEX attempt_run ON farmhand.attempt (run_id, attempt);
CREATE INDEX attempt_ended ON farmhand.attempt (ended_at);

-- Takeovers of the last hour, without reading the rest.
CREATE INDEX attempt_lost ON farmhand.attempt (ended_at, job_id) WHERE outcome = 'lost';

CREATE TABLE farmhand.attempt_default PARTITION OF farmhand.attempt DEFAULT;
ALTER TABLE farmhand.attempt REPLICA IDENTITY FULL;
ALTER TABLE farmhand.attempt_default REPLICA IDENTITY FULL;

-- Since when a run that is due waits: one that was taken over or tried again, from then on. Whatever shows or judges how long runs
-- wait reads this. A set of one row whose names are bound here, so that statements take it up as a part of themselves.
CREATE FUNCTION farmhand.waits_since(run bigint, attempts integer, ready_at timestamptz) RETURNS TABLE (since timestamptz)
LANGUAGE sql STABLE ROWS 1
RETURN CASE WHEN attempts > 0 THEN greatest(ready_at, (SELECT a.ended_at FROM farmhand.attempt a
    WHERE a.run_id = run ORDER BY a.attempt DESC LIMIT 1)) ELSE ready_at END;

-- Rows of run_history and of attempt as this release writes them. Not the tables' own row types: when a later release gives a table
-- another column, the agents of this one go on ending runs, without it.
CREATE TYPE farmhand.attempt_end AS (
    run_id bigint, job_id text, attempt integer, address text, session bigint, fence bigint, claimed_at timestamptz,
    started_at timestamptz, ended_at timestamptz, outcome text, ended_by text, reason text, exit_code integer, signal integer,
    cpu_ms bigint, max_rss_bytes bigint, output_bytes bigint, output_dropped bigint, ran_ms bigint
);
CREATE TYPE farmhand.run_end AS (
    run_id bigint, job_id text, rev bigint, kind text, instance integer, instances integer, node text,
    due_at timestamptz, ready_at timestamptz, state text, reason text, ended_by text, running_at text, session bigint,
    attempt integer, fence bigint, retries integer, takeovers integer, params jsonb, idempotency_key text,
    submitted_by text, parent_run bigint, cancel_by text, created_at timestamptz, claimed_at timestamptz,
    started_at timestamptz, finished_at timestamptz, exit_code integer, signal integer, cpu_ms bigint,
    max_rss_bytes bigint, output_bytes bigint, output_dropped bigint, first_due timestamptz, last_due timestamptz,
    count bigint, key text, firing bigint, parents jsonb, by_hand boolean,
    ran_ms bigint
);

-- The history row of a live run that ends. "ending" carries what the holder measured, and what folds, by column name.
--
-- A set of one row and without settings of its own, so that statements take it up as a part of themselves instead of
-- calling it once per run. Everything in it is pg_catalog's, which is searched first.
CREATE FUNCTION farmhand.ended(r farmhand.run_live, final text, why text, who text, ending jsonb DEFAULT '{}')
RETURNS SETOF farmhand.run_end
LANGUAGE sql STABLE ROWS 1
AS $$
SELECT r.run_id, r.job_id, r.rev, r.kind, r.instance, r.instances, r.node, r.due_at, r.ready_at,
    final, why, who, r.running_at, r.session, r.attempt, r.fence, r.retries, r.takeovers, r.params,
    r.made->>'idempotency_key', r.made->>'submitted_by', (r.made->>'parent_run')::bigint,
    -- Who replaces a run asks for its end, also where it need not.
    coalesce(ending->>'cancel_by', r.cancel_by, CASE WHEN why = 'replaced' AND final = 'cancelled' THEN 'replace' END), r.created_at, r.claimed_at,
    coalesce((ending->>'started_at')::timestamptz, r.started_at), statement_timestamp(),
    (ending->>'exit_code')::integer, (ending->>'signal')::integer, (ending->>'cpu_ms')::bigint,
    (ending->>'max_rss_bytes')::bigint, (ending->>'output_bytes')::bigint,
    (ending->>'output_dropped')::bigint, coalesce((ending->>'first_due')::timestamptz, r.due_at), r.due_at,
    coalesce((ending->>'count')::bigint, 1), r.key, r.firing,
    r.made->'parents', r.made ? 'by_hand', (ending->>'ran_ms')::bigint
$$;

-- What is to become of an attempt, or of a run that waits, named by all that its row says of who holds it.
CREATE TYPE farmhand.ending AS (
    run_id bigint, attempt integer, fence bigint, address text, session bigint,
    -- Its last state; "due": it goes on; "dropped": it was not due yet, and leaves no record.
    state text, reason text, ended_by text,
    -- What the holder measured, by column of run_history; and who asked for the end, and what folds into it.
    measured jsonb,
    -- How the attempt of a run that goes on has ended, what the run waits for, for how long, and as what it counts: "retry", "takeover".
    outcome text, again text, delay_ms bigint, counts text
);
CREATE FUNCTION farmhand.ending(r farmhand.run_live, goes_to text, why text, who text, measured jsonb DEFAULT '{}', outcome text DEFAULT NULL,
    again text DEFAULT NULL, delay_ms bigint DEFAULT NULL, counts text DEFAULT NULL) RETURNS farmhand.ending
LANGUAGE sql IMMUTABLE
RETURN ROW(r.run_id, r.attempt, r.fence, r.running_at, r.session, goes_to, why, who, measured, outcome, again, delay_ms, counts)::farmhand.ending;

-- The history row of instants that make no run, from the first to the last of so many.
CREATE FUNCTION farmhand.skipped(job text, rev bigint, kind text, instances integer, node text, first timestamptz, last timestamptz,
    count bigint, why text, params jsonb DEFAULT '{}') RETURNS farmhand.run_end
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT nextval('farmhand.run_id_seq'), job, rev, kind, 0, instances, node, first, first, 'skipped', why, 'schedule', NULL::text, NULL::bigint,
    0, NULL::bigint, 0, 0, params, NULL::text, NULL::text, NULL::bigint, NULL::text, statement_timestamp(), NULL::timestamptz,
    NULL::timestamptz, statement_timestamp(), NULL::integer, NULL::integer, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
    first, last, count, NULL::text, NULL::bigint, NULL::jsonb, false, NULL::bigint
$$;

-- How long an attempt ran, in milliseconds: as its node measured it, and only where no node did, until its end was written down.
-- Whatever shows or counts durations reads this. Its names are bound here, so that statements take it up as a part of themselves.
CREATE FUNCTION farmhand.ran_ms(measured bigint, started_at timestamptz, ended_at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN coalesce(measured, (date_part('epoch', ended_at - started_at) * 1000)::bigint);

-- Where a run goes whose attempt is over without an end of its own: the one decision, which `goes_to` in core/run.rs repeats. "ran" is
-- whether the command may have begun, "counts" whether the attempt is one more that was taken over.
CREATE FUNCTION farmhand.goes_to(cancel boolean, on_lost text, ran boolean, takeovers integer, counts boolean) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN cancel THEN 'cancelled' WHEN ran AND on_lost = 'fail' THEN 'lost' WHEN counts AND takeovers >= 5 THEN 'failed'
    ELSE 'due' END;

-- job_stat follows the ends of runs. A firing has one outcome: its first bad end fails it, and
-- it succeeds when all of its runs have; `FiringEnd` in core/trigger.rs is the same decision.
CREATE FUNCTION farmhand.count_ends(ended farmhand.run_end[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    firings boolean;
    failures boolean;
BEGIN
    SELECT bool_or(e.firing IS NOT NULL), bool_or(e.state IN ('failed', 'timed_out', 'lost')) INTO firings, failures
        FROM unnest(ended) e WHERE e.state <> 'skipped';
    IF firings IS NULL THEN
        RETURN;
    END IF;
    IF NOT firings AND NOT failures THEN
        -- Most ends. What follows below counts them alike, at several times the cost.
        INSERT INTO farmhand.job_stat AS s (job_id, last_run_started, last_finished, last_state, last_success,
            consecutive_failures)
        SELECT e.job_id, max(e.started_at), max(e.finished_at),
            (array_agg(e.state ORDER BY e.finished_at DESC, e.run_id DESC))[1],
            max(e.finished_at) FILTER (WHERE e.state = 'succeeded'), 0
        FROM unnest(ended) e WHERE e.state <> 'skipped'
        GROUP BY e.job_id ORDER BY e.job_id
        ON CONFLICT (job_id) DO UPDATE SET
            last_run_started = greatest(s.last_run_started, excluded.last_run_started),
            last_finished = excluded.last_finished,
            last_state = excluded.last_state,
            last_success = coalesce(excluded.last_success, s.last_success),
            consecutive_failures = CASE WHEN excluded.last_success IS NULL THEN s.consecutive_failures ELSE 0 END;
        RETURN;
    END IF;
    IF firings THEN
        -- Locked before the firings are read: of two ends of one firing written at once, the later sees the earlier.
        INSERT INTO farmhand.job_stat (job_id)
        SELECT DISTINCT e.job_id FROM unnest(ended) e WHERE e.state <> 'skipped' ORDER BY e.job_id
        ON CONFLICT (job_id) DO NOTHING;
        PERFORM FROM farmhand.job_stat s WHERE s.job_id = ANY (ARRAY(SELECT e.job_id FROM unnest(ended) e WHERE e.state <> 'skipped'))
            ORDER BY s.job_id FOR UPDATE;
    END IF;
    INSERT INTO farmhand.job_stat AS s (job_id, last_run_started, last_finished, last_state, last_success,
        consecutive_failures)
    SELECT e.job_id, max(e.started_at), max(e.finished_at) FILTER (WHERE e.outcome IS NOT NULL),
        (array_agg(e.outcome ORDER BY e.nth DESC) FILTER (WHERE e.outcome IS NOT NULL))[1],
        max(e.finished_at) FILTER (WHERE e.outcome = 'succeeded'),
        count(*) FILTER (WHERE e.outcome IN ('failed', 'timed_out', 'lost') AND e.nth > e.last_good)
    FROM (SELECT o.*, coalesce(max(o.nth) FILTER (WHERE o.outcome = 'succeeded') OVER (PARTITION BY o.job_id), 0)
                AS last_good
          FROM (SELECT m.job_id, m.started_at, m.finished_at, m.nth,
                    CASE WHEN m.firing IS NULL THEN m.state
                        WHEN m.bad THEN CASE WHEN m.nth_alike = 1 AND NOT EXISTS (
                            -- A run that was repeated counts as its repetition does.
                            SELECT FROM (SELECT DISTINCT ON (h.instance, h.node) h.run_id, h.state
                                FROM farmhand.run_history h WHERE h.firing = m.firing
                                ORDER BY h.instance, h.node, h.run_id DESC) h
                            WHERE h.state IN ('failed', 'timed_out', 'lost')
                                AND h.run_id NOT IN (SELECT x.run_id FROM unnest(ended) x)) THEN m.state END
                        WHEN m.from_last = 1
                            AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.firing = m.firing)
                            THEN CASE farmhand.firing_end(m.firing, m.firing)
                                WHEN 'success' THEN 'succeeded' WHEN 'cancelled' THEN 'cancelled' END
                    END AS outcome
                FROM (SELECT b.*, row_number() OVER (PARTITION BY b.job_id ORDER BY b.finished_at, b.run_id) AS nth,
                          row_number() OVER (PARTITION BY b.firing, b.bad ORDER BY b.finished_at, b.run_id) AS nth_alike,
                          row_number() OVER (PARTITION BY b.firing ORDER BY b.finished_at DESC, b.run_id DESC)
                              AS from_last
                      FROM (SELECT *, state IN ('failed', 'timed_out', 'lost') AS bad
                            FROM unnest(ended) WHERE state <> 'skipped') b) m) o) e
    GROUP BY e.job_id ORDER BY e.job_id
    ON CONFLICT (job_id) DO UPDATE SET
        last_run_started = greatest(s.last_run_started, excluded.last_run_started),
        last_finished = coalesce(excluded.last_finished, s.last_finished),
        last_state = coalesce(excluded.last_state, s.last_state),
        last_success = coalesce(excluded.last_success, s.last_success),
        consecutive_failures = excluded.consecutive_failures
            + CASE WHEN excluded.last_success IS NULL THEN s.consecutive_failures ELSE 0 END;
END
$$;
