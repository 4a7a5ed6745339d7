-- How far a run has come: what its command last reported. Apart from run_live, which every claim rewrites.
CREATE TABLE farmhand.progress (
    run_id bigint PRIMARY KEY,
    -- Of the attempt that reported last.
    attempt integer NOT NULL,
    -- When the report was stored, by the database's clock.
    at timestamptz NOT NULL,
    -- The last one that was more than a sign of life; the next attempt gets it.
    checkpoint text CHECK (octet_length(checkpoint) <= 4096)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Of rounds of these jobs that wait to begin: a stream that follows its file goes on where the last round of its instance was, however
-- that ended and under whichever name of its job. With the owner's rights: who applies or resumes a job makes its rounds, and
-- writes no place of its own.
CREATE FUNCTION farmhand.keep_places(jobs text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    kept bigint;
BEGIN
    INSERT INTO farmhand.progress (run_id, attempt, at, checkpoint)
    SELECT r.run_id, 0, statement_timestamp(), p.checkpoint
    FROM farmhand.run_live r
    JOIN farmhand.job_revision v ON v.job_id = r.job_id AND v.rev = r.rev AND v.spec->'stream'->'follow' = 'true'
    CROSS JOIN LATERAL (SELECT e.run_id, e.state FROM farmhand.run_history e
        WHERE e.job_id >= r.job_id AND e.job_id <= r.job_id AND e.kind = 'continuous' AND e.instance = r.instance
        ORDER BY e.job_id, e.run_id DESC LIMIT 1) h
    JOIN farmhand.progress p ON p.run_id = h.run_id AND p.checkpoint IS NOT NULL
    WHERE r.job_id = ANY (jobs) AND r.kind = 'continuous' AND r.state = 'due' AND r.attempt = 0 AND h.state <> 'succeeded'
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS kept = ROW_COUNT;
    RETURN kept;
END
$$;
REVOKE ALL ON FUNCTION farmhand.keep_places(text[]) FROM PUBLIC;

-- Runs that take longer than usual, as core/usual.rs decides. The agent that exposes the farm's gauges writes it, everybody else
-- shows it. A row goes when its run has ended; that of an earlier attempt says nothing.
CREATE TABLE farmhand.slow_run (
    run_id bigint PRIMARY KEY,
    job_id text NOT NULL,
    attempt integer NOT NULL,
    -- What is usual: the p95 of so many runs of its job.
    p95_ms bigint NOT NULL,
    runs integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
