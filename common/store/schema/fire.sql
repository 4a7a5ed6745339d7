-- Due instants become runs.

-- Locks the live runs of these jobs in whose way others may come to stand, so that what is made to wait for one is seen by its end. An end
-- that is being written is waited for, and the next statement's snapshot has it. What may be replaced is locked by the same
-- statement, in the order of the numbers, as ends lock runs.
CREATE FUNCTION farmhand.lock_blockers(queueing text[], replacing text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    IF replacing = '{}' THEN
        -- Claims and reports of starts go on. What waits needs no lock: promotions have the job locked.
        PERFORM FROM farmhand.run_live r
            WHERE r.job_id = ANY (queueing) AND farmhand.overlaps(r) AND r.gate IS DISTINCT FROM 'overlap'
            ORDER BY r.run_id FOR KEY SHARE;
        RETURN;
    END IF;
    PERFORM FROM farmhand.run_live r
        WHERE r.job_id = ANY (queueing || replacing) AND farmhand.overlaps(r)
            AND (r.gate IS DISTINCT FROM 'overlap' OR r.job_id = ANY (replacing))
        ORDER BY r.run_id FOR UPDATE;
END
$$;

-- Runs that one maker is to make of one job, whose row the caller has locked unless the rule is "allow".
CREATE TYPE farmhand.want AS (
    job_id text,
    -- One firing for each of these instants, oldest first.
    due timestamptz[],
    -- How long after its instant a run is to be ready; NULL: now.
    late_ms bigint,
    -- Instants that have no run, folded, each with its reason.
    skipped jsonb,
    -- The only node that may have it, whatever the job says; with an instance, the one run of so many that is made.
    node text, instance integer, instances integer,
    -- The firing for which that run counts.
    firing bigint,
    -- The overlap rule; NULL: the job's.
    overlap text,
    -- The number of the first run, whatever becomes of it.
    first_run bigint,
    params jsonb, key text, made jsonb,
    -- Of a round: how often in a row the rounds before it failed, and why it waits.
    retries integer, reason text
);

-- What became of it: the runs, waiting ones included, why others were not made, and what is asked to end for them.
CREATE TYPE farmhand.made AS (job_id text, run_ids bigint[], skipped jsonb, cancelling bigint[], note text);

-- What a job's overlap rule says to the nth of several instants: "run", "wait", or the reason of a skip. `live`: something of the
-- job is in its way. `queued`: how many firings of its class wait there; NULL: any number may. `overlap_says` in core/making.rs is the
-- same table.
CREATE FUNCTION farmhand.overlap_says(rule text, live boolean, queued bigint, nth bigint, instants bigint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN rule = 'allow' THEN 'run'
    WHEN rule = 'skip' AND live THEN 'overlap'
    WHEN rule = 'queue' AND queued + nth > 1000 THEN 'queue_full'
    WHEN rule IN ('latest', 'replace') AND nth < instants THEN 'replaced'
    WHEN live OR rule IN ('skip', 'queue') AND nth > 1 THEN 'wait'
    ELSE 'run' END;

-- Whether a live run of a job is in the way of another one of this kind and rule, on this node. A run that is of no node may be on any, so
-- that a job whose run_on was changed does not run beside itself. What a firing that replaces leaves alone, runs by hand and those of a
-- backfill that were not made to be replaced, it runs beside.
CREATE FUNCTION farmhand.is_in_the_way(r farmhand.run_live, of_node text, of_kind text, rule text) RETURNS boolean
LANGUAGE sql STABLE
RETURN farmhand.overlaps(r) AND (of_node IS NULL OR r.node IS NULL OR r.node = of_node)
    AND (rule <> 'replace' OR of_kind NOT IN ('scheduled', 'triggered')
        OR r.overlap = 'replace' OR r.kind IN ('scheduled', 'triggered'));

-- Makes runs of jobs, each once, and records why there are none. Nothing else adds a row to run_live.
--
-- The farm is told only of more runs than the caller has room for, and of runs that may not be for everybody: whoever fires
-- claims right afterwards. With room NULL the farm hears of no run.
CREATE FUNCTION farmhand.make_runs(maker text, wants farmhand.want[], room bigint DEFAULT 0) RETURNS SETOF farmhand.made
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    of_kind text := CASE maker WHEN 'trigger' THEN 'triggered' WHEN 'submit' THEN 'submitted' WHEN 'backfill' THEN 'backfill'
        WHEN 'retry' THEN 'retry' WHEN 'replay' THEN 'retry' WHEN 'rows' THEN 'table' WHEN 'rounds' THEN 'continuous'
        ELSE 'scheduled' END;
    -- Those whose waiting runs count for the bound of the queue; NULL: there is none.
    alike text[] := CASE WHEN maker = 'submit' THEN '{submitted}'
        WHEN maker IN ('schedule', 'boot', 'trigger') THEN '{scheduled,triggered}' END;
    -- Jobs are found by arrays, however many there are: a plan that is kept for a few never reads them all.
    jobs text[] := ARRAY(SELECT w.job_id FROM unnest(wants) w);
BEGIN
    -- A kept plan compares each firing of a set with each other, which costs less than planning while they are few.
    IF cardinality(jobs) > 64 THEN
        SET LOCAL plan_cache_mode = force_custom_plan;
    END IF;
    PERFORM farmhand.lock_blockers(coalesce(array_agg(j.job_id) FILTER (WHERE u.rule = 'queue'), '{}'),
            coalesce(array_agg(j.job_id) FILTER (WHERE u.rule IN ('latest', 'replace')), '{}'))
        FROM farmhand.job j JOIN unnest(wants) w ON w.job_id = j.job_id
        CROSS JOIN LATERAL (SELECT coalesce(w.overlap, j.overlap) AS rule) u
        WHERE j.job_id = ANY (jobs) AND u.rule IN ('queue', 'latest', 'replace') AND NOT j.observe AND cardinality(w.due) > 0
        HAVING count(*) > 0;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT w.*, j.rev, j.priority, j.placement, coalesce(w.overlap, j.overlap) AS rule, j.hard_ms,
            j.claim_within_ms,
            coalesce(w.instances, j.instances) AS shards, j.each_node AND w.node IS NULL AND w.instance IS NULL AS everywhere, m.making
        FROM unnest(wants) WITH ORDINALITY w
        JOIN farmhand.job j ON j.job_id = w.job_id
        CROSS JOIN LATERAL (SELECT farmhand.may_make(make_runs.maker, j.state, j.observe) AS making) m
        WHERE j.job_id = ANY (jobs) AND m.making NOT IN ('refuse', 'nothing')
            -- The key of a row is an argument of the command: no other job takes one.
            AND (w.key IS NULL OR j.kind = 'table')
    ), spot AS MATERIALIZED (
        -- Where each job fires: a node for each-node jobs.
        SELECT g.*, coalesce(n.address, g.node) AS at_node, g.everywhere AND n.address IS NULL AS nowhere,
            (SELECT d.gate FROM farmhand.need d WHERE d.job_id = g.job_id AND d.rev = g.rev) AS gate
        FROM given g
        -- OFFSET: decided before a node is read, or every firing would read them all.
        LEFT JOIN LATERAL (SELECT n.address FROM farmhand.node n
            WHERE g.everywhere AND n.state = 'ready'
                AND (g.placement IS NULL OR n.labels @> ANY (g.placement)) OFFSET 0) n ON true
        WHERE cardinality(g.due) > 0
    ), rival AS MATERIALIZED (
        -- What "replace" ends: locked first, so that a run just being claimed is seen as running. On a node that gets no new run
        -- the old one goes on. And the firing of the schedule or of triggers in whose place the newest one waits under "latest".
        SELECT r AS run, EXISTS (SELECT FROM given g WHERE g.job_id = r.job_id AND g.rule = 'latest') AS waited FROM farmhand.run_live r
        WHERE r.job_id = ANY (ARRAY(SELECT g.job_id FROM given g
                WHERE g.rule IN ('latest', 'replace') AND g.making = 'run' AND cardinality(g.due) > 0))
            AND EXISTS (SELECT FROM spot p WHERE p.job_id = r.job_id AND NOT p.nowhere
                AND farmhand.is_in_the_way(r, p.at_node, of_kind, p.rule)
                AND (p.rule = 'replace' OR r.gate = 'overlap' AND r.kind IN ('scheduled', 'triggered')
                    AND of_kind IN ('scheduled', 'triggered')))
        ORDER BY r.run_id FOR UPDATE
    ), asked AS (
        UPDATE farmhand.run_live r SET cancel_by = coalesce(r.cancel_by, 'replace')
        WHERE r.run_id = ANY (ARRAY(SELECT (v.run).run_id FROM rival v WHERE (v.run).state = 'running'))
        RETURNING r.run_id, r.job_id, r.node, r.running_at
    ), ended AS MATERIALIZED (
        SELECT count(*) FROM (SELECT array_agg(farmhand.ending(v.run, CASE WHEN v.waited THEN 'skipped' ELSE 'cancelled' END,
                'replaced', 'schedule')) AS endings
            FROM rival v WHERE (v.run).state = 'due' HAVING count(*) > 0) x
        CROSS JOIN LATERAL farmhand.end_runs(x.endings, false)
    ), queue AS MATERIALIZED (
        -- Firings that wait behind others, on each node where it is a job of each.
        SELECT g.ordinality, CASE WHEN g.everywhere OR g.node IS NOT NULL THEN r.node ELSE '' END AS node,
            count(DISTINCT coalesce(r.firing, r.run_id))
        FROM given g JOIN farmhand.run_live r ON r.job_id = g.job_id
        WHERE g.rule = 'queue' AND r.gate = 'overlap' AND r.kind = ANY (alike)
        GROUP BY 1, 2
    ), place AS MATERIALIZED (
        SELECT p.*, CASE WHEN alike IS NOT NULL THEN coalesce(q.count, 0) END AS queued,
            CASE p.rule
                WHEN 'allow' THEN false
                WHEN 'replace' THEN EXISTS (SELECT FROM asked a WHERE a.job_id = p.job_id
                    AND (p.at_node IS NULL OR a.node IS NULL OR a.node = p.at_node))
                ELSE EXISTS (SELECT FROM farmhand.run_live r WHERE r.job_id = p.job_id
                    AND farmhand.is_in_the_way(r, p.at_node, of_kind, p.rule)
                    AND r.run_id <> ALL (ARRAY(SELECT (v.run).run_id FROM rival v))
                    -- Nor are the other shards of a firing in the way of one that is made again.
                    AND (r.firing = p.firing AND (r.instance, r.node) IS DISTINCT FROM (p.instance, p.node)) IS NOT TRUE) END AS live
        FROM spot p
        LEFT JOIN queue q ON q.ordinality = p.ordinality AND q.node = coalesce(p.at_node, '')
    ), firing AS MATERIALIZED (
        -- With what its run is made of: looked up again for each, a set would be compared with itself several times.
        SELECT p.ordinality, p.job_id, p.rev, p.at_node, d.due_at, cardinality(p.due) AS instants, p.late_ms, p.rule, p.shards,
            p.everywhere, p.instance, p.firing, p.first_run, p.priority, p.placement, p.hard_ms, p.claim_within_ms, p.params, p.key,
            p.made, p.retries, p.reason, p.gate,
            CASE WHEN p.nowhere THEN 'no_node'
                 -- Whatever its overlap rule is: cron, which runs it meanwhile, has none.
                 WHEN p.making <> 'run' THEN p.making
                 ELSE farmhand.overlap_says(p.rule, p.live, p.queued, d.nth, cardinality(p.due)) END AS says
        FROM place p
        CROSS JOIN LATERAL unnest(p.due) WITH ORDINALITY AS d(due_at, nth)
    ), several AS MATERIALIZED (
        -- Instants that make more than one run: these carry the number of the first.
        SELECT f.ordinality, f.due_at, coalesce(f.first_run, nextval('farmhand.run_id_seq')) AS firing
        FROM (SELECT DISTINCT f.ordinality, f.due_at, f.first_run FROM firing f
            WHERE f.says IN ('run', 'wait') AND (f.shards > 1 AND f.instance IS NULL OR f.everywhere)) f
    ), made AS (
        INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, expires_at, gate,
            priority, placement, overlap, hard_ms, params, firing, made, key, retries, reason)
        SELECT CASE WHEN s.firing IS NULL THEN coalesce(f.first_run, nextval('farmhand.run_id_seq'))
                WHEN row_number() OVER (PARTITION BY s.firing ORDER BY f.at_node, i) = 1 THEN s.firing
                ELSE nextval('farmhand.run_id_seq') END,
            f.job_id, f.rev, of_kind, i, f.shards, f.at_node, f.due_at,
            -- Never ahead of now: whoever fires claims right afterwards.
            CASE WHEN f.late_ms IS NULL THEN statement_timestamp() ELSE greatest(f.due_at,
                least(f.due_at + f.late_ms * interval '1 millisecond', statement_timestamp())) END,
            -- From the end that triggered it: what its parents do takes time, and they may be of a backfill.
            CASE WHEN of_kind IN ('scheduled', 'triggered') AND (f.made ? 'by_hand') IS NOT TRUE
                THEN f.claim_within_ms * interval '1 millisecond' + CASE maker WHEN 'trigger' THEN statement_timestamp()
                    ELSE f.due_at + coalesce(f.late_ms, 0) * interval '1 millisecond' END END,
            CASE f.says WHEN 'wait' THEN 'overlap' ELSE f.gate END, f.priority, f.placement,
            CASE WHEN f.instants > 1 AND f.rule = 'skip' THEN 'queue' ELSE f.rule END, f.hard_ms,
            coalesce(f.params, '{}'), coalesce(s.firing, f.firing), coalesce(f.made, '{}'), f.key, coalesce(f.retries, 0), f.reason
        FROM firing f
        LEFT JOIN several s ON s.ordinality = f.ordinality AND s.due_at = f.due_at
        CROSS JOIN LATERAL generate_series(coalesce(f.instance, 0), coalesce(f.instance, f.shards - 1)) i
        WHERE f.says IN ('run', 'wait')
        ORDER BY f.due_at, f.priority DESC, f.job_id, f.ordinality, f.at_node, i
        -- A restored database may fire what it has already fired; the instant has its outcome. A row has one run.
        ON CONFLICT DO NOTHING
        RETURNING run_id, job_id, node, placement, instances
    ), skips AS MATERIALIZED (
        SELECT f.ordinality, f.job_id, f.at_node AS node, f.says AS reason, min(f.due_at) AS first, max(f.due_at) AS last,
            count(DISTINCT f.due_at) AS count
        FROM firing f WHERE f.says NOT IN ('run', 'wait')
        -- What is observed is compared instant by instant.
        GROUP BY f.ordinality, f.job_id, f.at_node, f.says, CASE WHEN f.says = 'observed' THEN f.due_at END
        UNION ALL
        SELECT g.ordinality, g.job_id, g.node, s.reason, s.first, s.last, s.count
        FROM given g
        CROSS JOIN LATERAL jsonb_to_recordset(g.skipped)
            AS s(reason text, first timestamptz, last timestamptz, count bigint)
    ), written AS MATERIALIZED (
        SELECT farmhand.write_ends((SELECT array_agg(
            jsonb_populate_record(
                farmhand.skipped(s.job_id, g.rev, of_kind, g.shards, s.node, s.first, s.last, s.count, s.reason,
                    coalesce(g.params, '{}')),
                coalesce(g.made, '{}') || jsonb_strip_nulls(jsonb_build_object('run_id', CASE WHEN s.nth = 1 AND NOT EXISTS (
                    SELECT FROM firing f WHERE f.says IN ('run', 'wait') AND f.ordinality = s.ordinality) THEN g.first_run END))))
            FROM (SELECT s.*, row_number() OVER (PARTITION BY s.ordinality ORDER BY s.node) AS nth FROM skips s) s
            JOIN given g ON g.ordinality = s.ordinality), lets_go => false)
        FROM ended
    )
    SELECT g.job_id,
        coalesce(m.run_ids, '{}') AS run_ids,
        coalesce(s.skipped, '[]') AS skipped,
        coalesce(a.run_ids, '{}') AS cancelling,
        CASE WHEN row_number() OVER () = 1 THEN (SELECT pg_notify('farmhand',
            json_build_object('due', min(m.run_id), 'job', min(m.job_id), 'runs', count(*))::text)::text
            -- Telling a thousand listeners of a run costs more than the run; should who fired it fail to claim it, the others'
            -- polls show that something is due.
            FROM made m
            HAVING room IS NOT NULL
                AND (count(*) > room OR bool_or(m.node IS NOT NULL OR m.placement IS NOT NULL OR m.instances > 1))) END AS note
    FROM (SELECT DISTINCT g.job_id FROM given g) g
    CROSS JOIN written
    -- Joined, not looked up row by row: a set is a thousand jobs.
    LEFT JOIN (SELECT m.job_id, array_agg(m.run_id ORDER BY m.run_id) AS run_ids FROM made m GROUP BY m.job_id) m
        ON m.job_id = g.job_id
    LEFT JOIN (SELECT s.job_id, jsonb_agg(jsonb_build_object(
            'reason', s.reason, 'first', s.first, 'last', s.last, 'count', s.count)) AS skipped
        FROM (SELECT job_id, reason, first, last, count FROM skips
            UNION ALL
            SELECT (v.run).job_id, 'replaced', min((v.run).due_at), max((v.run).due_at), count(DISTINCT (v.run).due_at)
            FROM rival v WHERE v.waited GROUP BY 1) s
        GROUP BY s.job_id) s ON s.job_id = g.job_id
    LEFT JOIN (SELECT a.job_id, array_agg(a.run_id) AS run_ids,
            count(pg_notify('farmhand', json_build_object('cancel', a.run_id, 'node', a.running_at)::text)::text)
        FROM asked a GROUP BY a.job_id) a
        ON a.job_id = g.job_id;
    IF maker = 'rounds' AND EXISTS (SELECT FROM farmhand.job j WHERE j.job_id = ANY (jobs) AND j.work = 'stream') THEN
        PERFORM farmhand.keep_places(jobs);
    END IF;
END
$$;

-- A function, so that a firing is one round trip, and its plans are kept behind any pooler.
--
-- Fires the jobs whose instant and revision are still those that were seen and which are due by this clock; those that another
-- agent fires, or has fired, are left out of the answer. The caller claims right afterwards, and has room for so many runs.
CREATE FUNCTION farmhand.fire(fires json, room bigint) RETURNS SETOF farmhand.made
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    asked text[] := ARRAY(SELECT g.job_id FROM json_to_recordset(fires) AS g(job_id text));
    wants farmhand.want[];
BEGIN
    IF cardinality(asked) > 64 THEN
        SET LOCAL plan_cache_mode = force_custom_plan;
    END IF;
    -- The locks first: the snapshots of make_runs then hold every end that promoted before.
    WITH given AS MATERIALIZED (
        SELECT e.value, g.* FROM json_array_elements(fires) e
        CROSS JOIN LATERAL json_to_record(e.value) AS g(job_id text, rev bigint, seen timestamptz, following timestamptz,
            due timestamptz[], skipped jsonb)
    ), locked AS MATERIALIZED (
        -- What a job must be like is put so that no index helps with it. Of two plans of one job the one that was made for what is due.
        SELECT g.*
        FROM farmhand.job j
        JOIN given g ON g.job_id = j.job_id
        WHERE j.job_id = ANY (asked)
            AND j.next_run IS NOT DISTINCT FROM g.seen AND j.rev = g.rev AND g.seen <= statement_timestamp()
            AND j.fires IS TRUE
            AND (SELECT e.open FROM farmhand.current_epoch e)
        ORDER BY j.job_id
        FOR UPDATE OF j SKIP LOCKED
    ), moved AS (
        UPDATE farmhand.job j
        SET next_run = g.following, scheduled = g.following IS NOT NULL,
            decided_until = greatest(j.decided_until, j.next_run,
                (SELECT max(d) FROM unnest(g.due) d),
                (SELECT max(s.last) FROM jsonb_to_recordset(g.skipped) AS s(last timestamptz)))
        FROM locked g WHERE j.job_id = g.job_id
        RETURNING g.value
    )
    SELECT array_agg(json_populate_record(NULL::farmhand.want, m.value)) INTO wants FROM moved m;
    IF wants IS NOT NULL THEN
        RETURN QUERY SELECT * FROM farmhand.make_runs('schedule', wants, room);
    END IF;
END
$$;
