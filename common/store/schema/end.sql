-- What the end of a run brings with it, in the transaction of the end.

-- Jobs to be looked at: something of them may wait for what has ended, or a round of theirs is missing, and whoever ended it could not
-- see to that. Written with the end itself, so that no promotion is lost; whoever looks deletes them in the same transaction.
CREATE TABLE farmhand.pending (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id text NOT NULL,
    look_at timestamptz NOT NULL DEFAULT statement_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX pending_look ON farmhand.pending (look_at);

-- Makes the rounds that these jobs lack, which the transaction has locked: of a continuous job one live run per instance. While claims
-- are closed none is made. Jobs whose last run went wrong pause first, as `pause` in core/continuous.rs has it, unless somebody applied
-- or resumed them since.
CREATE FUNCTION farmhand.make_rounds(jobs text[]) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wants farmhand.want[];
BEGIN
    WITH lacking AS MATERIALIZED (
        SELECT j.job_id, j.rev, j.instances, i AS instance, CASE WHEN s.last_state IN ('failed', 'timed_out', 'lost')
                AND s.last_finished > greatest(j.applied_at, j.resumed_at)
            THEN s.consecutive_failures ELSE 0 END AS failures
        FROM farmhand.job j
        CROSS JOIN LATERAL generate_series(0, j.instances - 1) i
        LEFT JOIN farmhand.job_stat s ON s.job_id = j.job_id
        WHERE j.job_id = ANY (jobs) AND j.kind = 'continuous'
            AND (SELECT e.open FROM farmhand.current_epoch e)
            AND NOT EXISTS (SELECT FROM farmhand.run_live r
                WHERE r.job_id = j.job_id AND r.kind = 'continuous' AND r.instance = i)
    ), timed AS MATERIALIZED (
        SELECT l.*, statement_timestamp() + CASE WHEN l.failures = 0 THEN 0 ELSE greatest(100, CASE p.backoff
            WHEN 'constant' THEN p.bound ELSE p.bound * (1 + random()) / 2 END) END * interval '1 millisecond' AS ready
        FROM lacking l
        JOIN farmhand.job_revision v ON v.job_id = l.job_id AND v.rev = l.rev
        CROSS JOIN LATERAL (
            SELECT t.backoff, least(t.base * CASE t.backoff WHEN 'constant' THEN 1 WHEN 'linear' THEN l.failures
                ELSE 2 ^ least(l.failures - 1, 40) END, greatest(t.base, t.cap)) AS bound
            FROM (SELECT r.backoff, coalesce(r.base, 1000) AS base, coalesce(r.cap, 300000) AS cap
                FROM jsonb_to_record(v.spec->'retry') AS r(backoff text, base float8, cap float8)) t) p
    )
    SELECT array_agg(jsonb_populate_record(NULL::farmhand.want, jsonb_build_object('job_id', t.job_id, 'instance', t.instance,
            'overlap', 'allow', 'due', jsonb_build_array(t.ready), 'late_ms', 0, 'retries', t.failures,
            'reason', CASE WHEN t.failures > 0 THEN 'backoff' END,
            -- Not every job begins with the same node.
            'made', CASE WHEN t.instances > 1 THEN jsonb_build_object('spread', hashtext(t.job_id) & 2147483647) END)) ORDER BY t.job_id, t.instance)
        INTO wants FROM timed t;
    IF wants IS NOT NULL THEN
        RETURN QUERY SELECT unnest(m.run_ids) FROM farmhand.make_runs('rounds', wants) m;
    END IF;
END
$$;

-- Lets go what waits in these jobs, which the transaction has locked, and has nothing of its job in its way any more. Of each job, and
-- of each node of an each-node job: the oldest waiting firing, all its instances together. The lock comes in a statement of its own
-- before, so that the snapshot here has every end that was written while somebody else held it.
CREATE FUNCTION farmhand.let_go(jobs text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    turn bigint[];
    mine bigint[];
    later text[];
BEGIN
    PERFORM farmhand.make_rounds(jobs);
    turn := ARRAY(
        WITH waiting AS (
            SELECT DISTINCT ON (r.job_id, r.node) r.job_id, r.node, r.due_at, coalesce(r.firing, r.run_id) AS firing
            FROM farmhand.run_live r
            WHERE r.gate = 'overlap' AND r.job_id = ANY (jobs) AND NOT farmhand.is_too_late(r)
            ORDER BY r.job_id, r.node, r.due_at, coalesce(r.firing, r.run_id)
        )
        SELECT r.run_id
        FROM waiting w
        JOIN farmhand.run_live r ON r.job_id = w.job_id AND r.node IS NOT DISTINCT FROM w.node
            AND r.due_at = w.due_at AND coalesce(r.firing, r.run_id) = w.firing AND r.gate = 'overlap' AND NOT farmhand.is_too_late(r)
        WHERE NOT EXISTS (SELECT FROM farmhand.run_live b WHERE b.job_id = w.job_id AND b.gate IS DISTINCT FROM 'overlap'
            AND farmhand.is_in_the_way(b, w.node, r.kind, r.overlap)));
    IF turn = '{}' THEN
        RETURN;
    END IF;
    mine := ARRAY(SELECT r.run_id FROM farmhand.run_live r WHERE r.run_id = ANY (turn) ORDER BY r.run_id FOR UPDATE SKIP LOCKED);
    IF cardinality(mine) < cardinality(turn) THEN
        -- Somebody holds one of them. Its firing goes as a whole, later.
        later := ARRAY(SELECT DISTINCT r.job_id FROM farmhand.run_live r WHERE r.run_id = ANY (turn) AND r.run_id <> ALL (mine)
            ORDER BY r.job_id);
        INSERT INTO farmhand.pending (job_id) SELECT unnest(later);
        mine := ARRAY(SELECT r.run_id FROM farmhand.run_live r WHERE r.run_id = ANY (mine) AND r.job_id <> ALL (later));
    END IF;
    -- To the next gate, for those that need a pool, a lock or a rate.
    UPDATE farmhand.run_live r SET gate = (SELECT n.gate FROM farmhand.need n WHERE n.job_id = r.job_id AND n.rev = r.rev)
        WHERE r.run_id = ANY (mine);
    PERFORM pg_notify('farmhand', json_build_object('due', r.run_id, 'job', r.job_id)::text)
        FROM farmhand.run_live r WHERE r.run_id = mine[1];
END
$$;

-- Looks at the jobs that notes name, and returns these. What somebody has locked is left to the next call.
CREATE FUNCTION farmhand.settle_pending() RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    jobs text[] := ARRAY(
        SELECT j.job_id FROM farmhand.job j
        WHERE j.job_id = ANY (ARRAY(SELECT DISTINCT p.job_id FROM farmhand.pending p
                WHERE p.look_at <= statement_timestamp() ORDER BY p.job_id LIMIT 1000))
            AND (SELECT e.open FROM farmhand.current_epoch e)
        ORDER BY j.job_id
        FOR NO KEY UPDATE SKIP LOCKED);
BEGIN
    DELETE FROM farmhand.pending p WHERE p.job_id = ANY (jobs) AND p.look_at <= statement_timestamp();
    PERFORM farmhand.let_go(jobs);
    RETURN QUERY SELECT unnest(jobs);
END
$$;

-- Writes ends of runs, and of attempts whose runs go on, with all that follows: nothing else adds an end to run_history. Called once
-- the rows are away from run_live (`end_runs`), or were never in it, in any statement of that transaction: each statement here has a
-- snapshot of its own.
--
-- What follows is done in this order because each leans on the one before. Locks that are waited for are those of job_stat, by name. A
-- job is locked only where something waits in it, and only if nobody else has locked it: whoever has may be waiting for one of these
-- runs. A note then brings the next poll to it. A firing that makes a run wait has locked what it waits for, so either the end waited
-- for the firing and sees the run here, or the firing waited for the end and made none wait.
--
-- Not "lets_go": the caller has the jobs locked and makes runs that come before what waits.
CREATE FUNCTION farmhand.write_ends(ends farmhand.run_end[], attempts farmhand.attempt_end[] DEFAULT NULL,
    lets_go boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    jobs text[];
    keyed boolean;
    bad boolean;
    round boolean;
    held boolean := false;
    waiting text[];
    locked text[] := '{}';
BEGIN
    IF attempts IS NOT NULL THEN
        -- A holder may tell of a start together with its end. Of all jobs that have an end here, in the order of locking: those whose
        -- run is over are counted after this, and have their lock by then.
        INSERT INTO farmhand.job_stat AS s (job_id, last_run_started)
        SELECT x.job_id, max(x.started_at) FROM (
            SELECT a.job_id, a.started_at FROM unnest(attempts) a WHERE a.ended_by = 'holder'
            UNION ALL SELECT e.job_id, e.started_at FROM unnest(ends) e WHERE e.ended_by = 'holder') x
        GROUP BY x.job_id ORDER BY x.job_id
        ON CONFLICT (job_id) DO UPDATE
            SET last_run_started = greatest(s.last_run_started, excluded.last_run_started);
        INSERT INTO farmhand.attempt SELECT a.* FROM unnest(attempts) a;
        -- People hear of the first loss of a run.
        INSERT INTO farmhand.notify_note (job_id, what, run_id, firing, attempt, outcome, reason, node, due_at)
        SELECT a.job_id, 'lost', a.run_id, r.firing, a.attempt, 'lost', a.reason, a.address,
            CASE WHEN isfinite(r.due_at) THEN r.due_at END
        FROM unnest(attempts) a
        LEFT JOIN farmhand.run_live r ON r.run_id = a.run_id
        WHERE a.outcome = 'lost'
            AND EXISTS (SELECT FROM farmhand.notify_edge t WHERE t.job_id = a.job_id)
            AND NOT EXISTS (SELECT FROM farmhand.attempt b
                WHERE b.run_id = a.run_id AND b.outcome = 'lost' AND b.attempt < a.attempt)
        ORDER BY a.run_id;
    END IF;
    IF ends IS NOT NULL THEN
        INSERT INTO farmhand.run_history SELECT e.* FROM unnest(ends) e;
        -- Read as seldom as possible: most ends need none of what follows.
        SELECT array_agg(DISTINCT e.job_id), bool_or(e.key IS NOT NULL),
                bool_or(e.ended_by <> 'cancel' AND e.state NOT IN ('succeeded', 'skipped')), bool_or(e.kind = 'continuous'),
                bool_or(e.running_at IS NOT NULL)
            INTO jobs, keyed, bad, round, held FROM unnest(ends) e;
        PERFORM farmhand.count_ends(ends);
        IF EXISTS (SELECT FROM farmhand.trigger_edge t WHERE t.parent = ANY (jobs)) THEN
            PERFORM farmhand.note_ends(ends);
        END IF;
        IF EXISTS (SELECT FROM farmhand.notify_edge t WHERE t.job_id = ANY (jobs)) THEN
            PERFORM farmhand.tell_ends(ends);
        END IF;
        IF keyed THEN
            PERFORM farmhand.end_rows(ends);
        END IF;
        IF bad THEN
            -- Not what a person cancelled while it waited: that has an event of its own.
            INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, attempt, address, session, fence, detail)
            SELECT statement_timestamp(), 'run_ended', CASE WHEN e.ended_by = 'holder' OR e.reason = 'replaced' THEN 'info'
                    ELSE 'warning' END, e.job_id, e.run_id, e.attempt, coalesce(e.running_at, e.node), e.session, e.fence,
                jsonb_strip_nulls(jsonb_build_object('outcome', e.state, 'reason', e.reason, 'exit_code', e.exit_code,
                    'signal', e.signal))
            FROM unnest(ends) e
            WHERE e.ended_by <> 'cancel' AND e.state NOT IN ('succeeded', 'skipped')
            ORDER BY e.run_id;
        END IF;
        IF lets_go THEN
            -- Probes, job by job: a plan that joins would read all that waits.
            waiting := ARRAY(SELECT j FROM unnest(jobs) j
                WHERE (SELECT true FROM farmhand.run_live w WHERE w.job_id = j AND w.gate = 'overlap' LIMIT 1));
            IF round THEN
                waiting := ARRAY(SELECT unnest(waiting) UNION SELECT e.job_id FROM unnest(ends) e
                    WHERE e.kind = 'continuous' AND NOT EXISTS (SELECT FROM farmhand.run_live r
                        WHERE r.job_id = e.job_id AND r.kind = 'continuous' AND r.instance = e.instance));
            END IF;
            IF waiting <> '{}' THEN
                locked := ARRAY(
                    SELECT j.job_id FROM farmhand.job j
                    WHERE j.job_id = ANY (waiting) AND (SELECT e.open FROM farmhand.current_epoch e)
                    ORDER BY j.job_id
                    FOR NO KEY UPDATE SKIP LOCKED);
                PERFORM farmhand.let_go(locked);
                INSERT INTO farmhand.pending (job_id) SELECT w FROM unnest(waiting) w WHERE w <> ALL (locked) ORDER BY w;
            END IF;
        END IF;
    END IF;
    IF (held OR attempts IS NOT NULL) AND EXISTS (SELECT FROM farmhand.need) THEN
        PERFORM farmhand.prompt(ends, attempts);
    END IF;
END
$$;

-- Ends these attempts and runs that wait, each only while its whole fence is still what the caller saw: nothing else takes a row away
-- from run_live. Returned are those that it ended, "ended" NULL for a run that is due again; the rest moved on before.
--
-- What is taken away is what is kept: no lock of its own before. A caller that decides by the row has locked it.
CREATE FUNCTION farmhand.end_runs(endings farmhand.ending[], lets_go boolean DEFAULT true)
RETURNS TABLE (run_id bigint, attempt integer, fence bigint, address text, session bigint, job_id text, ended text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    ends farmhand.run_end[];
    attempts farmhand.attempt_end[];
BEGIN
    -- No array of the numbers beside the join: a plan that goes by it compares each end with each.
    WITH gone AS (
        DELETE FROM farmhand.run_live r USING unnest(endings) g
        WHERE r.run_id = g.run_id AND r.attempt = g.attempt AND r.fence IS NOT DISTINCT FROM g.fence
            AND r.running_at IS NOT DISTINCT FROM g.address AND r.session IS NOT DISTINCT FROM g.session
            AND g.state <> 'due'
        RETURNING r AS run, g.state, g.reason, g.ended_by, g.measured
    )
    SELECT array_agg(k) INTO ends FROM gone o
        CROSS JOIN LATERAL farmhand.ended(o.run, o.state, o.reason, o.ended_by, o.measured) k WHERE o.state <> 'dropped';
    IF cardinality(endings) > coalesce(cardinality(ends), 0) THEN
        WITH again AS (
            -- Only a backoff waits for the server's clock. What is due at once stays as ready as it was: a clock that steps back must
            -- not make it wait.
            UPDATE farmhand.run_live r
            SET state = 'due', running_at = NULL, session = NULL, retries = r.retries + (g.counts IS NOT DISTINCT FROM 'retry')::int,
                takeovers = r.takeovers + (g.counts IS NOT DISTINCT FROM 'takeover')::int, reason = g.again,
                ready_at = CASE WHEN g.delay_ms > 0 THEN statement_timestamp() + g.delay_ms * interval '1 millisecond'
                    ELSE r.ready_at END
            FROM unnest(endings) g
            WHERE r.run_id = g.run_id AND r.attempt = g.attempt AND r.fence = g.fence
                AND r.running_at IS NOT DISTINCT FROM g.address AND r.session IS NOT DISTINCT FROM g.session
                AND g.state = 'due'
            RETURNING r.run_id, r.job_id, g.attempt, g.address, g.session, g.fence, r.claimed_at,
                coalesce((g.measured->>'started_at')::timestamptz, r.started_at), statement_timestamp(), g.outcome, g.ended_by,
                g.reason, (g.measured->>'exit_code')::integer, (g.measured->>'signal')::integer, (g.measured->>'cpu_ms')::bigint,
                (g.measured->>'max_rss_bytes')::bigint, (g.measured->>'output_bytes')::bigint,
                (g.measured->>'output_dropped')::bigint, (g.measured->>'ran_ms')::bigint
        )
        SELECT array_agg(ROW(a.*)::farmhand.attempt_end) INTO attempts FROM again a;
        PERFORM pg_notify('farmhand', json_build_object('due', a.run_id, 'job', a.job_id)::text) FROM unnest(attempts) a LIMIT 1;
    END IF;
    PERFORM farmhand.write_ends(ends, attempts, lets_go);
    RETURN QUERY
        SELECT e.run_id, e.attempt, e.fence, e.running_at, e.session, e.job_id, e.state FROM unnest(ends) e
        UNION ALL
        SELECT a.run_id, a.attempt, a.fence, a.address, a.session, a.job_id, NULL FROM unnest(attempts) a;
END
$$;
