-- Nodes: epochs, leases, boots, turns, and who exposes the farm's metrics.

CREATE TABLE farmhand.farm (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    farm_id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Grows by one in each renewal interval of the fastest agent: who remembers a number near it was here lately.
    pulse bigint NOT NULL DEFAULT 0,
    -- The highest that any agent reminded this database of while claims were closed.
    seen_epoch bigint NOT NULL DEFAULT 0,
    seen_run bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO farmhand.farm DEFAULT VALUES;

-- For what agents may count on by one and no further: a jump to the end would stop every renewal, or every change of a definition, for
-- good. The owner may repair it.
CREATE FUNCTION farmhand.refuse_jump() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = 'farmhand.farm'::regclass AND pg_has_role(session_user, c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION 'numbers of the farm are counted on one by one' USING ERRCODE = '42501';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION farmhand.refuse_jump() FROM PUBLIC;
CREATE FUNCTION farmhand.count_one() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM farmhand.refuse_jump();
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.count_one() FROM PUBLIC;
CREATE TRIGGER count_one AFTER UPDATE OF pulse ON farmhand.farm FOR EACH ROW
    WHEN (NEW.pulse NOT BETWEEN OLD.pulse AND OLD.pulse + 1) EXECUTE FUNCTION farmhand.count_one();

-- An epoch is the time between two replacements of the database: a failover, a restore, an upgrade, a move.
CREATE TABLE farmhand.epoch (
    -- The high bits of every fence.
    epoch bigint PRIMARY KEY CHECK (epoch BETWEEN 1 AND 4194303),
    -- Two databases that were one may open the same number.
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    server text NOT NULL,
    -- The one before: of those who open, one does.
    follows uuid UNIQUE,
    system_id bigint,
    opened_by text NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of all nodes, in this epoch; only grows. Another server is watched for as long before its epoch is opened, and for as
    -- long as in the epoch before: a lease of an older one has ended, for the epoch after it was opened no sooner.
    longest_lease_ms bigint NOT NULL DEFAULT 0
);

-- When this server was started; then, after a space, the place of these tables: timeline, database and file. A table that was
-- loaded from a dump is another one, and so is a database that was made from a template.
-- In a language that keeps what it has planned, and each name qualified instead of a search_path: every claim and every
-- poll asks. It costs 3 microseconds; with a search_path and a lookup of the database it would cost 13.
CREATE FUNCTION farmhand.server() RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    timeline pg_catalog.text := '-';
BEGIN
    BEGIN
        timeline := pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function OR object_not_in_prerequisite_state THEN
        -- Some services do not tell; Amazon Aurora says the last while it has no logical replication.
        NULL;
    END;
    RETURN pg_catalog.concat(
        (pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)
            ::pg_catalog.int8,
        ' ', timeline, '.', pg_catalog.pg_relation_filepath('farmhand.epoch'::pg_catalog.regclass));
END
$$;

-- The newest epoch. Claims are open while it names the server that answers. An older one may name it, too, when a farm that
-- moved is replicated back; it opens nothing.
CREATE VIEW farmhand.current_epoch AS
SELECT e.*, e.server = farmhand.server() AS open
FROM (SELECT n.* FROM farmhand.epoch n ORDER BY n.epoch DESC LIMIT 1) e;

-- Of the cluster; NULL where the service does not tell.
CREATE FUNCTION farmhand.system_id() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT c.system_identifier FROM pg_control_system() c);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function OR object_not_in_prerequisite_state THEN
    RETURN NULL;
END
$$;

-- Nothing was claimed before it.
INSERT INTO farmhand.epoch (epoch, server, system_id, opened_by)
VALUES (1, farmhand.server(), farmhand.system_id(), 'migrate');

-- Who has such a row locked is alone at something until its transaction ends. Rows are locked by the function below and by nobody else: no role
-- has a right to the table. Advisory locks would do as well, but whoever may connect can take them, and keep them from everybody.
-- Of names there is no end, so they share parts: two of one part wait for each other.
CREATE TABLE farmhand.alone (
    what text NOT NULL,
    part integer NOT NULL,
    PRIMARY KEY (what, part)
);
INSERT INTO farmhand.alone
SELECT w.what, p FROM (VALUES ('claims with needs', 0), ('sequences', 0), ('partitions', 0), ('notes', 0), ('name', 4095), ('rows', 1023),
    ('table', 1023)) AS w(what, last) CROSS JOIN LATERAL generate_series(0, w.last) p;

-- For all, or for one name of many. False: somebody else has it, and it was not to be waited for.
CREATE FUNCTION farmhand.be_alone(at_what text, of_name text, waits boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    of_part integer := CASE WHEN of_name IS NULL THEN 0
        ELSE hashtext(of_name) & (SELECT max(a.part) FROM farmhand.alone a WHERE a.what = at_what) END;
BEGIN
    IF NOT waits THEN
        PERFORM FROM farmhand.alone a WHERE a.what = at_what AND a.part = of_part FOR UPDATE SKIP LOCKED;
        RETURN FOUND;
    END IF;
    PERFORM FROM farmhand.alone a WHERE a.what = at_what AND a.part = of_part FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'farmhand.alone has no row for %', at_what;
    END IF;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION farmhand.be_alone(text, text, boolean) FROM PUBLIC;

-- Where each sequence stood when the present epoch was opened. No role has a right to it.
CREATE TABLE farmhand.counted (
    sequence text PRIMARY KEY,
    first bigint NOT NULL
);

-- An epoch counts on from where the one before stopped. By agents no epoch is opened far above the newest, or one row would use up all numbers
-- of epochs; the owner may.
CREATE FUNCTION farmhand.count_epoch() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NEW.epoch > 1100 + (SELECT max(e.epoch) FROM farmhand.epoch e WHERE e.epoch <> NEW.epoch) THEN
        PERFORM farmhand.refuse_jump();
    END IF;
    INSERT INTO farmhand.counted AS c (sequence, first)
    SELECT format('%I.%I', s.schemaname, s.sequencename), coalesce(s.last_value, 0) FROM pg_sequences s WHERE s.schemaname = 'farmhand'
    ON CONFLICT (sequence) DO UPDATE SET first = greatest(c.first, excluded.first);
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.count_epoch() FROM PUBLIC;
CREATE TRIGGER count_epoch AFTER INSERT ON farmhand.epoch FOR EACH ROW EXECUTE FUNCTION farmhand.count_epoch();

-- A database that was restored or replicated may have counted less far than its rows, and than what agents have seen.
-- Numbers are drawn, not set: runs are submitted meanwhile, and none of theirs may be given again. Only where more are missing
-- than anybody draws in that moment is the sequence set; for that agents take turns.
-- What rows and agents say is believed up to 10^12 above the epoch's first number, which no farm draws in an epoch (31 years at 1,000 a
-- second). So a login that writes or says more uses up that much of an epoch, and four million epochs have room for it.
CREATE FUNCTION farmhand.raise_sequences(own bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c record;
    highest bigint;
    missing bigint;
BEGIN
    PERFORM farmhand.be_alone('sequences', NULL, true);
    FOR c IN
        SELECT 'farmhand.run_id_seq' AS sequence, 'SELECT max(run_id) FROM farmhand.run_live' AS known
        UNION ALL SELECT 'farmhand.run_id_seq', 'SELECT max(run_id) FROM farmhand.run_history'
        UNION ALL SELECT 'farmhand.run_id_seq', format('SELECT greatest(%s, f.seen_run) FROM farmhand.farm f', own)
        UNION ALL SELECT 'farmhand.event_id_seq', 'SELECT max(event_id) FROM farmhand.event'
        UNION ALL SELECT pg_get_serial_sequence(t.oid::regclass::text, a.attname), format('SELECT max(%I) FROM %s', a.attname, t.oid::regclass)
        FROM pg_attribute a JOIN pg_class t ON t.oid = a.attrelid
        WHERE t.relnamespace = 'farmhand'::regnamespace AND t.relkind IN ('r', 'p') AND a.attidentity <> '' AND NOT t.relispartition
    LOOP
        EXECUTE c.known INTO highest;
        highest := least(coalesce(highest, 0), 1000000000000 + coalesce((SELECT k.first FROM farmhand.counted k WHERE k.sequence = c.sequence), 0));
        EXECUTE format('SELECT %s - last_value + CASE WHEN is_called THEN 0 ELSE 1 END FROM %s', highest, c.sequence)
            INTO missing;
        IF missing > 1000000 THEN
            PERFORM setval(c.sequence, highest);
        ELSE
            PERFORM nextval(c.sequence) FROM generate_series(1, missing);
        END IF;
    END LOOP;
END
$$;

CREATE TABLE farmhand.node (
    address text PRIMARY KEY CHECK (address <> ''),
    name text NOT NULL,
    session bigint NOT NULL,
    incarnation uuid NOT NULL,
    open boolean NOT NULL,
    cordoned boolean NOT NULL DEFAULT false,
    draining boolean NOT NULL DEFAULT false,
    -- Its agent was told to end, and ends when what runs has ended. Only that agent says so; the next one takes it back.
    leaving boolean NOT NULL DEFAULT false,
    renewals bigint NOT NULL DEFAULT 0,
    ttl_ms bigint NOT NULL CHECK (ttl_ms > 0),
    lease_until timestamptz NOT NULL,
    slots integer NOT NULL CHECK (slots >= 0),
    -- `node` is a node's own address, or it would take what is for another.
    labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object' AND labels->>'node' = address),
    version text NOT NULL,
    -- Which machine, and which boot of it, opened the session: told to another agent of the same address. NULL where unknown.
    machine text,
    started_at timestamptz NOT NULL,
    state text NOT NULL GENERATED ALWAYS AS (CASE
        WHEN NOT open THEN 'closed'
        WHEN draining OR leaving THEN 'draining'
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
    -- Why the node claims nothing, as of its last renewal; NULL while it asks for runs.
    cannot_start text,
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

-- Whether a node asks for runs, and may run one that is for this node or for nodes with these labels. What waits is kept only for such a
-- node: one that renews its lease and claims nothing would keep it from all others.
CREATE FUNCTION farmhand.takes_work(n farmhand.node, wanted text, wanted_labels jsonb[]) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN n.state = 'ready' AND n.cannot_start IS NULL AND (wanted IS NULL OR n.address = wanted)
    AND (wanted_labels IS NULL OR n.labels @> ANY (wanted_labels));

-- A node as people are shown it; "lease_until" is compared with the server's clock for them only.
CREATE FUNCTION farmhand.shown_state(n farmhand.node) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN n.open AND n.lease_until < statement_timestamp() THEN 'expired'
        WHEN n.open AND n.state = 'ready' AND n.cannot_start IS NOT NULL THEN 'blocked'
        WHEN n.open THEN n.state
        WHEN n.lost_at > statement_timestamp() - interval '1 day' THEN 'lost'
        ELSE 'closed' END
$$;

-- The place of a node, from 0, among the ready ones that have the labels, and how many those are, at least 1.
CREATE FUNCTION farmhand.turn(own text, wanted jsonb[] DEFAULT NULL) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY[count(*) FILTER (WHERE n.address < own), greatest(1, count(*))]
    FROM farmhand.node n
    WHERE n.state = 'ready' AND (wanted IS NULL OR n.labels @> ANY (wanted))
$$;

-- Who exposes the farm's metrics. No wall clock decides: a challenger needs the very (holder, renewals) that stood
-- still for the whole of its stopwatch. The nil holder is nobody.
CREATE TABLE farmhand.snapshot_lease (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder uuid NOT NULL,
    address text NOT NULL,
    renewals bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO farmhand.snapshot_lease (holder, address, renewals) VALUES ('00000000-0000-0000-0000-000000000000', '', 0);
