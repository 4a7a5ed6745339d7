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
