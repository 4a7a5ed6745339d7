-- What ends of runs cost, by the thousand.

-- As before (0009), but as a set of one row and without settings of its own, so that statements take it up as a part of
-- themselves instead of calling it once per run. Everything in it is pg_catalog's, which is searched first.
DROP FUNCTION farmhand.ended(farmhand.run_live, text, text, text, jsonb);
CREATE FUNCTION farmhand.ended(r farmhand.run_live, final text, why text, who text, ending jsonb DEFAULT '{}')
RETURNS SETOF farmhand.run_history
LANGUAGE sql STABLE ROWS 1
AS $$
SELECT r.run_id, r.job_id, r.rev, r.kind, r.instance, r.instances, r.node, r.due_at, r.ready_at,
    final, why, who, r.running_at, r.session, r.attempt, r.fence, r.retries, r.takeovers, r.params,
    r.idempotency_key, r.submitted_by, r.parent_run, r.cancel_by, r.created_at, r.claimed_at,
    coalesce((ending->>'started_at')::timestamptz, r.started_at), statement_timestamp(),
    (ending->>'exit_code')::integer, (ending->>'signal')::integer, (ending->>'cpu_ms')::bigint,
    (ending->>'max_rss_bytes')::bigint, (ending->>'output_bytes')::bigint,
    (ending->>'output_dropped')::bigint, r.due_at, r.due_at, 1::bigint, r.key,
    r.firing, r.parents, r.by_hand
$$;

-- What a claim seldom needs, as functions: a statement plans what it says, a function is planned when it is called.

-- The place of a node, from 0, among the ready ones that have the labels, and how many those are, at least 1.
CREATE FUNCTION farmhand.turn(own text, wanted jsonb DEFAULT NULL) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY[count(*) FILTER (WHERE n.address < own), greatest(1, count(*))]
    FROM farmhand.node n
    WHERE n.state = 'ready' AND (wanted IS NULL OR n.labels @> wanted)
$$;

-- Tasks of a flow that are not to run again.
CREATE FUNCTION farmhand.done_tasks(run bigint, resume text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(l.task)
    FROM (SELECT DISTINCT ON (t.task) t.task, t.outcome FROM farmhand.task t
        WHERE t.run_id = run AND (t.attempt = 0 OR resume = 'skip_finished')
        ORDER BY t.task, t.attempt DESC) l
    WHERE l.outcome = 'succeeded'
$$;

-- As before (0001), in a language that keeps what it has planned: every claim and every look asks.
CREATE OR REPLACE FUNCTION farmhand.current_timeline() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN ('x' OPERATOR(pg_catalog.||) pg_catalog.lpad(pg_catalog.substr(
        pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8), 16, '0'))::pg_catalog.bit(64)::pg_catalog.int8;
END
$$;

-- Sessions that go straight to PostgreSQL avoid whole tables (conn.rs); users' own tables are left to the planner.
ALTER FUNCTION farmhand.dispatch_rows(text) SET enable_seqscan = on;
ALTER FUNCTION farmhand.flush_rows(text, bigint[]) SET enable_seqscan = on;
