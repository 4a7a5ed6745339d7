-- The boot that each node was last seen in: what @reboot fires for it has been decided.
CREATE TABLE farmhand.node_boot (
    address text PRIMARY KEY,
    boot_id text NOT NULL CHECK (boot_id <> ''),
    seen_at timestamptz NOT NULL
);
