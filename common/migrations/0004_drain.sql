-- Until when a draining node may let run what it runs, and who withheld it.
ALTER TABLE farmhand.node
    ADD COLUMN drain_until timestamptz,
    ADD COLUMN withheld_by text,
    ADD COLUMN withheld_at timestamptz,
    ADD CONSTRAINT node_drain_until CHECK (drain_until IS NULL OR draining);
