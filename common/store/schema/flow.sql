-- Ends of a flow's tasks: one row for each task and attempt of its run. Attempt 0: taken over from the run
-- that this one repeats.
CREATE TABLE farmhand.task (
    run_id bigint NOT NULL,
    task text NOT NULL,
    attempt integer NOT NULL CHECK (attempt >= 0),
    address text,
    outcome text NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'cancelled', 'skipped')),
    started_at timestamptz,
    ended_at timestamptz NOT NULL,
    exit_code integer,
    signal integer,
    cpu_ms bigint,
    max_rss_bytes bigint,
    reason text,
    -- From the task that was skipped to the one that failed.
    blame text[] NOT NULL DEFAULT '{}',
    stored_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, task, attempt)
);
CREATE INDEX task_stored ON farmhand.task (stored_at);

-- Tasks of a flow that are not to run again.
CREATE FUNCTION farmhand.done_tasks(run bigint, resume text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(l.task)
    FROM (SELECT DISTINCT ON (t.task) t.task, t.outcome FROM farmhand.task t
        WHERE t.run_id = run AND (t.attempt = 0 OR resume = 'skip_finished')
        ORDER BY t.task, t.attempt DESC) l
    WHERE l.outcome = 'succeeded'
$$;
