-- Who exposes the farm's metrics. No wall clock decides: a challenger needs the very (holder, beat) that stood
-- still for the whole of its stopwatch. The nil holder is nobody.
CREATE TABLE farmhand.snapshot_lease (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder uuid NOT NULL,
    address text NOT NULL,
    beat bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO farmhand.snapshot_lease (holder, address, beat) VALUES ('00000000-0000-0000-0000-000000000000', '', 0);

-- When another agent ended the node's last session; NULL while it has one, and after a close of its own.
ALTER TABLE farmhand.node ADD COLUMN lost_at timestamptz;

-- Success is waited for from here on, not from before the pause.
ALTER TABLE farmhand.job ADD COLUMN resumed_at timestamptz;

-- Takeovers of the last hour, without reading the rest.
CREATE INDEX attempt_lost ON farmhand.attempt (ended_at, job_id) WHERE outcome = 'lost';
