-- Due instants become runs.

-- Marks the live runs of queueing jobs, so that each of their ends lets go what waits, whatever rule the run was made under. An end that
-- is being written is waited for, and the next statement's snapshot has it. What replacing jobs replace is locked by the same statement,
-- in the order of the numbers, as ends lock runs.
CREATE FUNCTION farmhand.ends_promote(queueing text[], replacing text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    WITH held AS MATERIALIZED (
        SELECT r.run_id, r.job_id = ANY (queueing) AS promotes FROM farmhand.run_live r
        WHERE r.job_id = ANY (queueing || replacing) AND CASE WHEN r.job_id = ANY (queueing)
            THEN farmhand.overlaps(r) AND r.overlap NOT IN ('queue', 'replace')
            ELSE r.overlap = 'replace' OR r.kind IN ('scheduled', 'triggered') END
        ORDER BY r.run_id FOR UPDATE
    )
    UPDATE farmhand.run_live r SET overlap = 'queue'
    WHERE r.run_id = ANY (ARRAY(SELECT h.run_id FROM held h WHERE h.promotes));
END
$$;

-- A function, so that a firing is one round trip, and its plans are kept behind any pooler.
--
-- Fires the jobs whose instant and revision are still those that were seen and which are due by this clock; those that another
-- agent fires, or has fired, are left out of the answer. The caller claims right afterwards, and has room for so many runs.
CREATE FUNCTION farmhand.fire(fires json, room bigint)
RETURNS TABLE (job_id text, run_ids bigint[], skipped jsonb, cancelling bigint[], note text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    -- Jobs are found by arrays, however many there are: a plan that is kept for a few never reads them all.
    asked text[] := ARRAY(SELECT g.job_id FROM json_to_recordset(fires) AS g(job_id text));
    locked text[];
BEGIN
    -- A kept plan compares each firing of a set with each other, which costs less than planning while they are few.
    IF cardinality(asked) > 64 THEN
        SET LOCAL plan_cache_mode = force_custom_plan;
    END IF;
    -- The locks first: the second statement's snapshot then holds every end that promoted before.
    locked := ARRAY(
        -- What a job must be like is put so that no index helps with it.
        SELECT j.job_id
        FROM farmhand.job j
        JOIN json_to_recordset(fires) AS g(job_id text, rev bigint, seen timestamptz) ON g.job_id = j.job_id
        WHERE j.job_id = ANY (asked)
            AND j.next_run IS NOT DISTINCT FROM g.seen AND j.rev = g.rev AND g.seen <= statement_timestamp()
            AND j.fires IS TRUE
            AND (SELECT e.open FROM farmhand.current_epoch e)
        ORDER BY j.job_id
        FOR UPDATE OF j SKIP LOCKED);
    IF locked = '{}' THEN
        RETURN;
    END IF;
    PERFORM farmhand.ends_promote(coalesce(array_agg(j.job_id) FILTER (WHERE j.overlap = 'queue'), '{}'),
            coalesce(array_agg(j.job_id) FILTER (WHERE j.overlap = 'replace'), '{}'))
        FROM farmhand.job j
        JOIN json_to_recordset(fires) AS g(job_id text, due timestamptz[]) ON g.job_id = j.job_id
        WHERE j.job_id = ANY (locked) AND j.overlap IN ('queue', 'replace') AND NOT j.observe AND cardinality(g.due) > 0
        HAVING count(*) > 0;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        -- Of two plans of one job the one that was made for what is due now. In a CASE, or the planner takes it for rarely true and
        -- compares each job with each.
        SELECT j.*, g.following, g.due, g.late_ms, g.skipped
        FROM json_to_recordset(fires)
            AS g(job_id text, seen timestamptz, following timestamptz, due timestamptz[], late_ms bigint, skipped jsonb)
        JOIN farmhand.job j ON j.job_id = g.job_id
        WHERE g.job_id = ANY (locked) AND j.job_id = ANY (locked) AND CASE WHEN j.next_run = g.seen THEN true END
    ), moved AS (
        UPDATE farmhand.job j
        SET next_run = g.following, scheduled = g.following IS NOT NULL,
            decided_until = greatest(j.decided_until, j.next_run,
                (SELECT max(d) FROM unnest(g.due) d),
                (SELECT max(s.last) FROM jsonb_to_recordset(g.skipped) AS s(last timestamptz)))
        FROM given g WHERE j.job_id = g.job_id AND j.job_id = ANY (locked)
    ), rival AS MATERIALIZED (
        -- What "replace" ends: locked first, so that a run just being claimed is seen as running. On a node that gets no new run
        -- the old one goes on.
        SELECT r AS run FROM farmhand.run_live r
        WHERE r.job_id = ANY (ARRAY(
                SELECT g.job_id FROM given g WHERE g.overlap = 'replace' AND NOT g.observe AND cardinality(g.due) > 0))
            -- Runs by hand and those of a backfill go on, unless they were made to be replaced.
            AND (r.overlap = 'replace' OR r.kind IN ('scheduled', 'triggered'))
            AND (r.node IS NULL OR EXISTS (SELECT FROM given g LEFT JOIN farmhand.node n ON n.address = r.node AND n.state = 'ready'
                    AND (g.placement IS NULL OR n.labels @> ANY (g.placement))
                WHERE g.job_id = r.job_id AND (n.address IS NOT NULL OR NOT g.each_node)))
        ORDER BY r.run_id FOR UPDATE
    ), asked AS (
        -- With this rule its end looks for what waits for it, whatever rule it was made under.
        UPDATE farmhand.run_live r SET cancel_requested = true, cancel_by = 'replace', overlap = 'replace'
        WHERE r.run_id = ANY (ARRAY(SELECT (v.run).run_id FROM rival v WHERE (v.run).state = 'running'))
        RETURNING r.run_id, r.job_id, r.node, r.running_at
    ), dropped AS (
        DELETE FROM farmhand.run_live r
        WHERE r.run_id = ANY (ARRAY(SELECT (v.run).run_id FROM rival v WHERE (v.run).state = 'due'))
    ), replaced AS (
        INSERT INTO farmhand.run_history
        SELECT k.* FROM rival v CROSS JOIN LATERAL farmhand.ended(v.run, 'cancelled', 'replaced', 'schedule') k
        WHERE (v.run).state = 'due'
    ), queue AS MATERIALIZED (
        -- What waits behind others, on each node where it is a job of each.
        SELECT g.job_id, CASE WHEN g.each_node THEN r.node ELSE '' END AS node, count(*)
        FROM given g JOIN farmhand.run_live r ON r.job_id = g.job_id
        WHERE g.overlap = 'queue' AND r.gate = 'overlap'
        GROUP BY 1, 2
    ), place AS MATERIALIZED (
        -- Where each job fires (a node for each-node jobs), and whether something of it is live there.
        SELECT g.job_id, n.address AS node,
            CASE g.overlap
                WHEN 'allow' THEN false
                WHEN 'replace' THEN EXISTS (SELECT FROM asked a WHERE a.job_id = g.job_id
                    AND (n.address IS NULL OR a.node = n.address))
                ELSE EXISTS (SELECT FROM farmhand.run_live r WHERE r.job_id = g.job_id AND farmhand.overlaps(r)
                    AND (n.address IS NULL OR r.node = n.address)) END AS live,
            coalesce(q.count, 0) AS queued
        FROM given g
        -- OFFSET: decided before a node is read, or every firing would read them all.
        LEFT JOIN LATERAL (SELECT n.address FROM farmhand.node n
            WHERE g.each_node AND n.state = 'ready'
                AND (g.placement IS NULL OR n.labels @> ANY (g.placement)) OFFSET 0) n ON true
        LEFT JOIN queue q ON q.job_id = g.job_id AND q.node = coalesce(n.address, '')
    ), firing AS MATERIALIZED (
        SELECT g.job_id, p.node, d.due_at, d.nth,
            CASE WHEN g.each_node AND p.node IS NULL THEN 'no_node'
                 -- Whatever its overlap rule is: cron, which runs it meanwhile, has none.
                 WHEN g.observe THEN 'observed'
                 WHEN g.overlap = 'skip' AND p.live THEN 'overlap'
                 WHEN g.overlap = 'queue' AND p.queued + d.nth > 1000 THEN 'queue_full'
                 WHEN g.overlap = 'replace' AND d.nth < cardinality(g.due) THEN 'replaced' END AS skip,
            CASE WHEN g.overlap = 'allow' THEN NULL
                 WHEN p.live OR (g.overlap <> 'replace' AND d.nth > 1) THEN 'overlap' END AS gate
        FROM given g
        JOIN place p ON p.job_id = g.job_id
        CROSS JOIN LATERAL unnest(g.due) WITH ORDINALITY AS d(due_at, nth)
    ), several AS MATERIALIZED (
        -- Instants that make more than one run: these carry the number of the first.
        SELECT f.job_id, f.due_at, nextval('farmhand.run_id_seq') AS firing
        FROM (SELECT DISTINCT f.job_id, f.due_at FROM firing f JOIN given g ON g.job_id = f.job_id
            WHERE f.skip IS NULL AND (g.instances > 1 OR g.each_node)) f
    ), made AS (
        INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, gate,
            priority, placement, on_lost, overlap, hard_ms, firing)
        SELECT CASE WHEN s.firing IS NOT NULL AND row_number() OVER (
                    PARTITION BY s.firing ORDER BY f.node, i) = 1 THEN s.firing
                ELSE nextval('farmhand.run_id_seq') END,
            g.job_id, g.rev, 'scheduled', i, g.instances, f.node, f.due_at,
            -- Never ahead of now: whoever fires claims right afterwards.
            greatest(f.due_at, least(f.due_at + g.late_ms * interval '1 millisecond', statement_timestamp())), f.gate,
            g.priority, g.placement, g.on_lost,
            CASE WHEN cardinality(g.due) > 1 AND g.overlap = 'skip' THEN 'queue' ELSE g.overlap END, g.hard_ms, s.firing
        FROM firing f
        JOIN given g ON g.job_id = f.job_id
        LEFT JOIN several s ON s.job_id = f.job_id AND s.due_at = f.due_at
        CROSS JOIN LATERAL generate_series(0, g.instances - 1) i
        WHERE f.skip IS NULL
        ORDER BY f.due_at, g.priority DESC, g.job_id, f.node, i
        -- A restored database may fire what it has already fired; the instant has its outcome.
        ON CONFLICT DO NOTHING
        RETURNING run_id, job_id, node, placement, instances
    ), skips AS MATERIALIZED (
        SELECT f.job_id, f.node, f.skip AS reason, min(f.due_at) AS first, max(f.due_at) AS last,
            count(DISTINCT f.due_at) AS count, true AS own
        -- What is observed is compared instant by instant.
        FROM firing f WHERE f.skip IS NOT NULL
        GROUP BY f.job_id, f.node, f.skip, CASE WHEN f.skip = 'observed' THEN f.due_at END
        UNION ALL
        SELECT g.job_id, NULL, s.reason, s.first, s.last, s.count, false
        FROM given g
        CROSS JOIN LATERAL jsonb_to_recordset(g.skipped)
            AS s(reason text, first timestamptz, last timestamptz, count bigint)
    ), recorded AS (
        INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at, state,
            reason, ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due, count)
        SELECT nextval('farmhand.run_id_seq'), s.job_id, g.rev, 'scheduled', 0, g.instances, s.node, s.first, s.first,
            'skipped', s.reason, 'schedule', 0, 0, 0, '{}', statement_timestamp(), statement_timestamp(),
            s.first, s.last, s.count
        FROM skips s JOIN given g ON g.job_id = s.job_id
    )
    SELECT g.job_id,
        coalesce(m.run_ids, '{}') AS run_ids,
        coalesce(s.skipped, '[]') AS skipped,
        coalesce(a.run_ids, '{}') AS cancelling,
        CASE WHEN row_number() OVER () = 1 THEN (SELECT pg_notify('farmhand',
            json_build_object('due', min(m.run_id), 'job', min(m.job_id), 'runs', count(*))::text)::text
            -- Whoever fires takes what it has room for at once. Telling a thousand listeners of it would cost more than the
            -- run; should it fail to, the others' polls show that something is due.
            FROM made m
            HAVING count(*) > room OR bool_or(m.node IS NOT NULL OR m.placement IS NOT NULL OR m.instances > 1)) END AS note
    FROM given g
    -- Joined, not looked up row by row: a set is a thousand jobs.
    LEFT JOIN (SELECT m.job_id, array_agg(m.run_id ORDER BY m.run_id) AS run_ids FROM made m GROUP BY m.job_id) m
        ON m.job_id = g.job_id
    LEFT JOIN (SELECT s.job_id, jsonb_agg(jsonb_build_object(
            'reason', s.reason, 'first', s.first, 'last', s.last, 'count', s.count)) AS skipped
        FROM skips s WHERE s.own GROUP BY s.job_id) s ON s.job_id = g.job_id
    LEFT JOIN (SELECT a.job_id, array_agg(a.run_id) AS run_ids,
            count(pg_notify('farmhand', json_build_object('cancel', a.run_id, 'node', a.running_at)::text)::text)
        FROM asked a GROUP BY a.job_id) a
        ON a.job_id = g.job_id;
END
$$;
