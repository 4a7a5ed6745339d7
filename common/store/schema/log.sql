-- The output of runs.

-- Partitioned by the database's clock; "at" is the agent's and may be wrong.
CREATE TABLE farmhand.run_log (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    seq bigint NOT NULL,
    stream text NOT NULL CHECK (stream IN ('stdout', 'stderr', 'agent')),
    at timestamptz NOT NULL,
    stored_at timestamptz NOT NULL,
    chunk bytea NOT NULL
) PARTITION BY RANGE (stored_at);
CREATE INDEX run_log_run ON farmhand.run_log (run_id, attempt, seq);
CREATE TABLE farmhand.run_log_default PARTITION OF farmhand.run_log DEFAULT;
ALTER TABLE farmhand.run_log REPLICA IDENTITY FULL;
ALTER TABLE farmhand.run_log_default REPLICA IDENTITY FULL;
