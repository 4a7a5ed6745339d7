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

-- Runs that take longer than usual, as core/usual.rs decides. The agent that exposes the farm's gauges writes it, everybody else
-- shows it. A row goes when its run has ended; that of an earlier attempt says nothing.
CREATE TABLE farmhand.slow_run (
    run_id bigint PRIMARY KEY,
    job_id text NOT NULL,
    attempt integer NOT NULL,
    -- When it was found.
    at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- What is usual: the p95 of so many runs of its job.
    p95_ms bigint NOT NULL,
    runs integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
