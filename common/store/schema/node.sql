-- Nodes: timelines, leases, boots, turns, and who exposes the farm's metrics.

-- Which timelines are open for claims: after a failover the new primary's must be opened first.
CREATE TABLE farmhand.timeline (
    tli bigint PRIMARY KEY,
    opened_by text NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of all nodes, ever; only grows. A new timeline is watched for as long before it is opened.
    longest_lease_ms bigint NOT NULL DEFAULT 0,
    -- Runs with a longer hold are not claimed yet: an attempt whose claim the failover lost may live as long.
    held_ms bigint NOT NULL DEFAULT 0
);

-- In a language that keeps what it has planned: every claim and every look asks.
CREATE FUNCTION farmhand.current_timeline() RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN ('x' OPERATOR(pg_catalog.||) pg_catalog.lpad(pg_catalog.substr(
        pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8), 16, '0'))::pg_catalog.bit(64)::pg_catalog.int8;
END
$$;
-- Nothing was claimed before it.
INSERT INTO farmhand.timeline (tli, opened_by, held_ms)
VALUES (farmhand.current_timeline(), 'migrate', 9223372036854775807);

CREATE TABLE farmhand.node (
    address text PRIMARY KEY CHECK (address <> ''),
    name text NOT NULL,
    session bigint NOT NULL,
    life uuid NOT NULL,
    open boolean NOT NULL,
    cordoned boolean NOT NULL DEFAULT false,
    draining boolean NOT NULL DEFAULT false,
    beat bigint NOT NULL DEFAULT 0,
    ttl_ms bigint NOT NULL CHECK (ttl_ms > 0),
    lease_until timestamptz NOT NULL,
    slots integer NOT NULL CHECK (slots >= 0),
    labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    state text NOT NULL GENERATED ALWAYS AS (CASE
        WHEN NOT open THEN 'closed'
        WHEN draining THEN 'draining'
        WHEN cordoned THEN 'cordoned'
        ELSE 'ready' END) STORED,
    -- Until when a draining node may let run what it runs, and who withheld it.
    drain_until timestamptz CONSTRAINT node_drain_until CHECK (drain_until IS NULL OR draining),
    withheld_by text,
    withheld_at timestamptz,
    -- When another agent ended the node's last session; NULL while it has one, and after a close of its own.
    lost_at timestamptz,
    -- The database's clock minus the node's, as the node measured it with its last renewal; NULL until it has. For people: no
    -- decision hangs on it.
    clock_offset_ms bigint,
    -- The transaction of the latest renewal, never lower than one before: who has seen a higher number knows that the
    -- renewal was sent before.
    mark bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    -- Makes a change of session a key update: FOR KEY SHARE then blocks it, and never a renewal.
    UNIQUE (address, session)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Each poll of each agent asks which marks are old. It costs a renewal its place within the page: 0.02 ms of 0.17; the
-- poll without it would read every node: 1.3 ms instead of 0.1 with 1,000 of them, 15 ms instead of 0.1 with 10,000.
CREATE INDEX node_mark ON farmhand.node (ttl_ms, mark) WHERE open;

-- The boot that each node was last seen in: what @reboot fires for it has been decided.
CREATE TABLE farmhand.node_boot (
    address text PRIMARY KEY,
    boot_id text NOT NULL CHECK (boot_id <> ''),
    seen_at timestamptz NOT NULL
);

-- The place of a node, from 0, among the ready ones that have the labels, and how many those are, at least 1.
CREATE FUNCTION farmhand.turn(own text, wanted jsonb DEFAULT NULL) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY[count(*) FILTER (WHERE n.address < own), greatest(1, count(*))]
    FROM farmhand.node n
    WHERE n.state = 'ready' AND (wanted IS NULL OR n.labels @> wanted)
$$;

-- Who exposes the farm's metrics. No wall clock decides: a challenger needs the very (holder, beat) that stood
-- still for the whole of its stopwatch. The nil holder is nobody.
CREATE TABLE farmhand.snapshot_lease (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder uuid NOT NULL,
    address text NOT NULL,
    beat bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO farmhand.snapshot_lease (holder, address, beat) VALUES ('00000000-0000-0000-0000-000000000000', '', 0);
