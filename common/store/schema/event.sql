-- What happened, for people; nothing is decided by it.

CREATE SEQUENCE farmhand.event_id_seq;

CREATE TABLE farmhand.event (
    event_id bigint NOT NULL DEFAULT nextval('farmhand.event_id_seq'),
    at timestamptz NOT NULL,
    kind text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('debug', 'info', 'warning', 'error')),
    job_id text,
    run_id bigint,
    attempt integer,
    address text,
    session bigint,
    fence bigint,
    detail jsonb NOT NULL DEFAULT '{}'
) PARTITION BY RANGE (at);
CREATE INDEX event_id ON farmhand.event (event_id);
-- For the times at which the database was away, in the picture of the nodes.
CREATE INDEX event_outage ON farmhand.event (at) WHERE kind = 'database_back';
-- For nodes that are lost again and again.
CREATE INDEX event_expired ON farmhand.event (at) WHERE kind = 'expired';
CREATE INDEX event_run ON farmhand.event (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE farmhand.event_default PARTITION OF farmhand.event DEFAULT;
ALTER TABLE farmhand.event REPLICA IDENTITY FULL;
ALTER TABLE farmhand.event_default REPLICA IDENTITY FULL;
