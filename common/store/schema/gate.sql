-- Pools, locks and rates. A run that needs any keeps its gate for as long as it lives: due, it waits there;
-- running, it holds what it needs. So a hold is the row of the running run itself, and ends with it or with its
-- going back to due, whichever statement does that.

-- Sizes: one number for the whole farm (`pool`), and per node (`node_pool`).
CREATE TABLE farmhand.pool (
    name text PRIMARY KEY CHECK (name <> ''),
    size integer NOT NULL CHECK (size >= 0),
    -- As the job file has it: a size set by hand stays until the file's changes.
    file_size integer NOT NULL CHECK (file_size >= 0),
    source text NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL
);

-- What the runs of one revision of a job need; no row for those that need nothing. What makes a run, lets it go or gives it another
-- revision takes the gate from here in the same statement.
CREATE TABLE farmhand.need (
    job_id text NOT NULL,
    rev bigint NOT NULL,
    gate text NOT NULL CHECK (gate IN ('pool', 'lock', 'rate')),
    pool text,
    node_pool text,
    locks text[] NOT NULL DEFAULT '{}',
    -- At most rate_count starts within any rate_ms.
    rate_count integer CHECK (rate_count > 0),
    -- A hundred years at most, as in job files: no claim could reckon with much more.
    rate_ms bigint CHECK (rate_ms BETWEEN 1 AND 3162240000000),
    PRIMARY KEY (job_id, rev),
    CHECK ((rate_count IS NULL) = (rate_ms IS NULL))
);

-- Starts of jobs with a rate, while they count.
CREATE TABLE farmhand.rate_start (
    job_id text NOT NULL,
    at timestamptz NOT NULL,
    run_id bigint NOT NULL,
    attempt integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE farmhand.rate_start REPLICA IDENTITY FULL;
CREATE INDEX rate_start_job ON farmhand.rate_start (job_id, at DESC);

-- Who holds what.
CREATE VIEW farmhand.holding AS
SELECT r.run_id, r.job_id, r.rev, r.running_at, r.claimed_at, n.pool, n.node_pool, n.locks
FROM farmhand.run_live r
JOIN farmhand.need n ON n.job_id = r.job_id AND n.rev = r.rev
WHERE r.state = 'running' AND r.gate IN ('pool', 'lock', 'rate');

-- Each kind (job and revision) of which runs wait, and the first of them: an index probe per kind, however
-- many wait. Runs of one kind need the same, have one priority and one placement.
CREATE VIEW farmhand.waiting AS
WITH RECURSIVE kind(job_id, rev) AS (
    (SELECT r.job_id, r.rev FROM farmhand.run_live r
        WHERE r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate') ORDER BY r.job_id, r.rev LIMIT 1)
    UNION ALL
    SELECT x.job_id, x.rev FROM kind k CROSS JOIN LATERAL (
        SELECT r.job_id, r.rev FROM farmhand.run_live r
        WHERE r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate') AND (r.job_id, r.rev) > (k.job_id, k.rev)
        ORDER BY r.job_id, r.rev LIMIT 1) x
)
SELECT n.job_id, n.rev, n.pool, n.node_pool, n.locks, n.rate_count, n.rate_ms,
    f.run_id, f.priority, f.ready_at, f.node, f.placement
FROM kind k
JOIN farmhand.need n ON n.job_id = k.job_id AND n.rev = k.rev
CROSS JOIN LATERAL (
    SELECT r.run_id, r.priority, r.ready_at, r.node, r.placement FROM farmhand.run_live r
    WHERE r.job_id = k.job_id AND r.rev = k.rev AND r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate')
        AND NOT farmhand.is_too_late(r)
    ORDER BY r.priority DESC, r.ready_at, r.run_id LIMIT 1
) f;

-- Takes names for runs, until the transaction ends; false when a lease has one of them, or takes it just now. Whoever takes a
-- lease has the same lock while it looks for such runs (lease.sql).
CREATE FUNCTION farmhand.lock_names(names text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        IF NOT farmhand.be_alone('name', name, false) THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN NOT farmhand.any_leased(names);
END
$$;

-- Whether a named lease has one of these names.
CREATE FUNCTION farmhand.any_leased(names text[]) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN names <> '{}' AND EXISTS (SELECT FROM farmhand.lease_holder l WHERE l.name = ANY (names));
END
$$;

-- A node with a free slot that takes this, but for one; NULL: none. A revision ("REV JOB") is not for nodes that leave it to
-- others.
CREATE FUNCTION farmhand.free_node(wanted text, wanted_labels jsonb[], revision text, other_than text DEFAULT NULL)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT n.address FROM farmhand.node n
WHERE farmhand.takes_work(n, wanted, wanted_labels) AND n.address IS DISTINCT FROM other_than
    AND n.slots > (SELECT count(*) FROM farmhand.run_live r WHERE r.running_at = n.address)
    AND (wanted IS NOT NULL OR revision <> ALL (farmhand.left_to_others(n.address)))
LIMIT 1
$$;

-- Tells the farm of the first runs that wait for what these runs held, whose attempts are over.
CREATE FUNCTION farmhand.prompt(ends farmhand.run_end[], attempts farmhand.attempt_end[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT farmhand.any_waiting() THEN
        RETURN;
    END IF;
    PERFORM pg_notify('farmhand', json_strip_nulls(json_build_object('due', n.run_id, 'job', n.job_id, 'node', n.node))::text)
    FROM (
        SELECT w.run_id, w.job_id, CASE WHEN w.node IS NOT NULL OR w.placement IS NOT NULL
            -- What is kept for the run is idle until a node claims that may run it.
            THEN farmhand.free_node(w.node, w.placement, w.rev || ' ' || w.job_id) END AS node
        FROM farmhand.waiting w
        WHERE EXISTS (
            SELECT FROM farmhand.need f
            JOIN (SELECT e.job_id, e.rev FROM unnest(ends) e WHERE e.running_at IS NOT NULL
                UNION
                SELECT r.job_id, r.rev FROM unnest(attempts) a JOIN farmhand.run_live r ON r.run_id = a.run_id) u
                ON u.job_id = f.job_id AND u.rev = f.rev
            WHERE f.pool = w.pool OR f.node_pool = w.node_pool OR f.locks && w.locks)
        ORDER BY w.priority DESC, w.ready_at, w.run_id
        LIMIT 4
    ) n;
END
$$;

-- Whether any run waits at such a gate: the order asks for the index, also when most runs do.
CREATE FUNCTION farmhand.any_waiting() RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT (SELECT r.run_id FROM farmhand.run_live r WHERE r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate')
    ORDER BY r.job_id, r.rev LIMIT 1) IS NOT NULL
$$;

-- When the rate of a job lets the next run start; NULL or a time that has passed: now. Starts in the future are
-- those of a clock that was set back: the next claim corrects them.
CREATE FUNCTION farmhand.rate_free_at(job text, most integer, window_ms bigint) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT CASE WHEN (SELECT max(s.at) FROM farmhand.rate_start s WHERE s.job_id = job) <= clock_timestamp() THEN (
    SELECT s.at + window_ms * interval '1 millisecond' FROM farmhand.rate_start s
    WHERE s.job_id = job ORDER BY s.at DESC OFFSET most - 1 LIMIT 1) END
$$;

-- Whether a waiting run may keep its locks from those behind it: not while it waits for its rate, for a pool without places, or for
-- a node.
CREATE FUNCTION farmhand.may_keep(w farmhand.waiting) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT (w.rate_count IS NULL
        OR coalesce(farmhand.rate_free_at(w.job_id, w.rate_count, w.rate_ms) <= statement_timestamp(), true))
    AND NOT EXISTS (SELECT FROM unnest(ARRAY[w.pool, w.node_pool]) AS u(name) WHERE u.name IS NOT NULL
        AND NOT EXISTS (SELECT FROM farmhand.pool p WHERE p.name = u.name AND p.size > 0))
    AND EXISTS (SELECT FROM farmhand.node m WHERE farmhand.takes_work(m, w.node, w.placement))
$$;

-- Claims waiting runs for a session, with all that each needs at once, and returns them.
--
-- What is held changes to "held" here alone, and one caller at a time, so that each sees what those before it
-- took: the lock comes first, and every statement of the function after it has a snapshot of its own. Nothing
-- else is waited for while it is held, and it is held for one round trip of nobody's network.
--
-- Runs are looked at in the order of claiming. One that cannot have all it needs takes nothing. The first that
-- waits for a lock keeps all its locks for itself, so that a stream of runs that need one of them cannot keep it
-- waiting for ever; likewise the next place of a pool goes to the first that waits for it. So it is for the first that waits
-- for this node's places of a pool, and for one that another node has a slot for. Runs without needs
-- that come before have their places left to them.
CREATE FUNCTION farmhand.claim_gated(at_address text, of_session bigint, of_incarnation uuid, places integer)
RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Claims of runs without needs come after it.
SET lock_timeout = '2s'
AS $$
DECLARE
    my_labels jsonb;
    epoch bigint;
    now timestamptz;
    left_places integer := places;
    farm_free jsonb;
    node_free jsonb;
    held text[];
    left_alone text[];
    kept text[] := '{}';
    awaited text[] := '{}';
    awaited_here text[] := '{}';
    has_place boolean;
    node_full boolean;
    c record;
BEGIN
    IF NOT farmhand.any_waiting() THEN
        RETURN;
    END IF;
    SELECT n.labels, e.epoch INTO my_labels, epoch FROM farmhand.node n
        JOIN farmhand.current_epoch e ON e.open
        WHERE n.address = at_address AND n.session = of_session AND n.incarnation = of_incarnation AND n.open
            AND NOT n.cordoned AND NOT n.draining
        FOR KEY SHARE OF n;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM farmhand.be_alone('claims with needs', NULL, true);
    now := clock_timestamp();
    left_alone := farmhand.left_to_others(at_address);

    SELECT coalesce(array_agg(l.name), '{}') INTO held
        FROM farmhand.holding h CROSS JOIN LATERAL unnest(h.locks) AS l(name);
    SELECT coalesce(jsonb_object_agg(p.name, p.size - coalesce(u.farm, 0)), '{}'),
            coalesce(jsonb_object_agg(p.name, p.size - coalesce(v.here, 0)), '{}')
        INTO farm_free, node_free
        FROM (SELECT q.name, q.size FROM farmhand.pool q WHERE q.size > 0) p
        LEFT JOIN (SELECT h.pool, count(*) AS farm FROM farmhand.holding h GROUP BY h.pool) u ON u.pool = p.name
        LEFT JOIN (SELECT h.node_pool, count(*) AS here FROM farmhand.holding h WHERE h.running_at = at_address
            GROUP BY h.node_pool) v ON v.node_pool = p.name;

    FOR c IN
        WITH RECURSIVE level(priority) AS (
            (SELECT r.priority FROM farmhand.run_live r WHERE r.state = 'due' AND r.gate IS NULL
                ORDER BY r.priority DESC LIMIT 1)
            UNION ALL
            SELECT (SELECT r.priority FROM farmhand.run_live r
                WHERE r.state = 'due' AND r.gate IS NULL AND r.priority < l.priority ORDER BY r.priority DESC LIMIT 1)
            FROM level l WHERE l.priority IS NOT NULL
        ), waiting AS MATERIALIZED (
            SELECT w.*, w.placement IS NULL OR my_labels @> ANY (w.placement) AS fits
            FROM farmhand.waiting w WHERE w.ready_at <= now
        )
        -- The first of each kind, whoever may run it: it may be in front of ours.
        SELECT true AS gated, w.job_id, w.pool, w.node_pool, w.locks, w.rate_count, w.rate_ms, w.run_id, w.priority,
            w.ready_at, w.fits AND (CASE WHEN w.node IS NULL THEN NOT w.rev || ' ' || w.job_id = ANY (left_alone)
                ELSE w.node = at_address END) AS ours, w.rev, w.node, w.placement
        FROM waiting w
        WHERE EXISTS (SELECT FROM farmhand.node n WHERE farmhand.takes_work(n, w.node, w.placement))
            -- A node that could start nothing tries again, whatever its row says.
            OR w.fits AND coalesce(w.node, at_address) = at_address
        UNION ALL
        SELECT true, w.job_id, w.pool, w.node_pool, w.locks, w.rate_count, w.rate_ms, o.run_id, o.priority, o.ready_at,
            true, w.rev, NULL, NULL
        FROM waiting w
        CROSS JOIN LATERAL (
            SELECT r.run_id, r.priority, r.ready_at FROM farmhand.run_live r
            WHERE r.job_id = w.job_id AND r.rev = w.rev AND r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate')
                AND r.ready_at <= now AND NOT farmhand.is_too_late(r)
                AND (r.node = at_address OR r.node IS NULL AND NOT w.rev || ' ' || w.job_id = ANY (left_alone))
            ORDER BY r.priority DESC, r.ready_at, r.run_id LIMIT places
        ) o
        WHERE w.fits AND o.run_id <> w.run_id
        UNION ALL
        SELECT false, NULL, NULL, NULL, '{}', NULL, NULL, u.run_id, u.priority, u.ready_at, true, NULL, NULL, NULL
        FROM level l
        CROSS JOIN LATERAL (
            SELECT r.run_id, r.priority, r.ready_at FROM farmhand.run_live r
            WHERE r.state = 'due' AND r.gate IS NULL AND r.priority = l.priority AND r.ready_at <= now
                AND NOT farmhand.is_too_late(r)
                AND (r.node = at_address OR r.node IS NULL AND NOT r.rev || ' ' || r.job_id = ANY (left_alone))
                AND (r.placement IS NULL OR my_labels @> ANY (r.placement))
            ORDER BY r.ready_at, r.run_id LIMIT places
        ) u
        WHERE l.priority IS NOT NULL
        ORDER BY 9 DESC, 10, 8
    LOOP
        EXIT WHEN left_places <= 0;
        IF NOT c.gated THEN
            left_places := left_places - 1;
            CONTINUE;
        END IF;
        IF c.rate_count IS NOT NULL THEN
            UPDATE farmhand.rate_start s SET at = now WHERE s.job_id = c.job_id AND s.at > now;
            -- It may wait for long, and keeps nobody from anything meanwhile.
            CONTINUE WHEN farmhand.rate_free_at(c.job_id, c.rate_count, c.rate_ms) > now;
        END IF;
        -- A pool of size 0, or one that was deleted, has no places. Such a run waits and keeps nothing.
        CONTINUE WHEN NOT farm_free ? c.pool OR NOT node_free ? c.node_pool;
        has_place := c.pool IS NULL OR coalesce((farm_free->>c.pool)::integer, 0) > 0;
        IF NOT has_place OR c.locks && (held || kept) OR farmhand.any_leased(c.locks) THEN
            CONTINUE WHEN c.locks && kept OR c.pool = ANY (awaited);
            kept := kept || c.locks;
            IF NOT has_place THEN
                awaited := awaited || c.pool;
            END IF;
            CONTINUE;
        END IF;
        node_full := c.node_pool IS NOT NULL AND (node_free->>c.node_pool)::integer <= 0;
        IF NOT c.ours OR node_full THEN
            CONTINUE WHEN c.locks = '{}' AND c.pool IS NULL;
            CONTINUE WHEN c.ours AND c.node_pool = ANY (awaited_here)
                OR NOT c.ours AND farmhand.free_node(c.node, c.placement, c.rev || ' ' || c.job_id, at_address) IS NULL;
            IF c.ours THEN
                awaited_here := awaited_here || c.node_pool;
            END IF;
            kept := kept || c.locks;
            IF c.pool IS NOT NULL THEN
                farm_free := jsonb_set(farm_free, ARRAY[c.pool], to_jsonb((farm_free->>c.pool)::integer - 1));
            END IF;
            CONTINUE;
        END IF;
        -- Somebody cancels or replaces it just now: no reason for the farm to wait. A round that was given another revision
        -- meanwhile needs what that one needs.
        PERFORM FROM farmhand.run_live r
            WHERE r.run_id = c.run_id AND r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate')
                AND r.job_id = c.job_id AND r.rev = c.rev AND r.attempt < 1000000000 AND NOT farmhand.is_too_late(r)
            FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- A statement of its own, so that it sees the leases of those that had the names until now.
        IF NOT farmhand.lock_names(c.locks) THEN
            kept := kept || c.locks;
            CONTINUE;
        END IF;
        UPDATE farmhand.run_live r
            SET state = 'running', running_at = at_address, session = of_session, attempt = r.attempt + 1,
                fence = epoch * 1099511627776 + nextval('farmhand.fence_seq'),
                claimed_at = now, started_at = NULL, expires_at = NULL
            WHERE r.run_id = c.run_id;
        RETURN NEXT c.run_id;
        left_places := left_places - 1;
        held := held || c.locks;
        IF c.pool IS NOT NULL THEN
            farm_free := jsonb_set(farm_free, ARRAY[c.pool], to_jsonb((farm_free->>c.pool)::integer - 1));
        END IF;
        IF c.node_pool IS NOT NULL THEN
            node_free := jsonb_set(node_free, ARRAY[c.node_pool], to_jsonb((node_free->>c.node_pool)::integer - 1));
        END IF;
        IF c.rate_count IS NOT NULL THEN
            -- By the longer of both windows: this run may be of an older revision than the present one.
            DELETE FROM farmhand.rate_start s
                WHERE s.job_id = c.job_id AND s.at <= now - greatest(c.rate_ms, (SELECT n.rate_ms FROM farmhand.job j
                    JOIN farmhand.need n ON n.job_id = j.job_id AND n.rev = j.rev WHERE j.job_id = c.job_id))
                    * interval '1 millisecond';
            INSERT INTO farmhand.rate_start (job_id, at, run_id, attempt)
                SELECT c.job_id, now, r.run_id, r.attempt FROM farmhand.run_live r WHERE r.run_id = c.run_id;
        END IF;
    END LOOP;
END
$$;

-- When this node might claim a waiting run, as far as pools, locks and rates go; NULL when none waits, or when
-- something has to end first.
CREATE FUNCTION farmhand.gated_at(at_address text) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT farmhand.any_waiting() THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH used AS MATERIALIZED (
            SELECT h.pool, h.node_pool, h.locks, h.running_at FROM farmhand.holding h
        ), taken AS MATERIALIZED (
            SELECT coalesce(array_agg(l.name), '{}') AS locks FROM used u CROSS JOIN LATERAL unnest(u.locks) AS l(name)
        )
        SELECT min(greatest(o.ready_at, CASE WHEN w.rate_count IS NOT NULL
            THEN farmhand.rate_free_at(w.job_id, w.rate_count, w.rate_ms) END))
        FROM farmhand.waiting w
        JOIN farmhand.node n ON n.address = at_address AND (w.placement IS NULL OR n.labels @> ANY (w.placement))
        CROSS JOIN LATERAL (
            SELECT r.ready_at FROM farmhand.run_live r
            WHERE r.job_id = w.job_id AND r.rev = w.rev AND r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate')
                AND NOT farmhand.is_too_late(r) AND (r.node IS NULL OR r.node = at_address)
            ORDER BY r.priority DESC, r.ready_at, r.run_id LIMIT 1
        ) o
        WHERE NOT w.locks && (SELECT t.locks FROM taken t) AND NOT farmhand.any_leased(w.locks)
            AND (w.pool IS NULL OR (SELECT p.size FROM farmhand.pool p WHERE p.name = w.pool)
                > (SELECT count(*) FROM used u WHERE u.pool = w.pool))
            AND (w.node_pool IS NULL OR (SELECT p.size FROM farmhand.pool p WHERE p.name = w.node_pool)
                > (SELECT count(*) FROM used u WHERE u.node_pool = w.node_pool AND u.running_at = at_address))
    );
END
$$;

-- What a due run with needs waits for, now; NULL when it is only to be claimed. With the owner's rights, because
-- whoever may read the view "run" may ask.
CREATE FUNCTION farmhand.waits_for(of_job text, of_rev bigint, of_node text, of_run bigint, of_priority integer,
    of_ready timestamptz) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n farmhand.need;
BEGIN
    SELECT * INTO n FROM farmhand.need d WHERE d.job_id = of_job AND d.rev = of_rev;
    IF n.pool IS NOT NULL AND coalesce((SELECT p.size FROM farmhand.pool p WHERE p.name = n.pool), 0)
            <= (SELECT count(*) FROM farmhand.holding h WHERE h.pool = n.pool) THEN
        RETURN 'pool';
    END IF;
    IF n.locks && coalesce((SELECT array_agg(l.name) FROM farmhand.holding h
                CROSS JOIN LATERAL unnest(h.locks) AS l(name)), '{}')
            OR farmhand.any_leased(n.locks)
            OR (n.locks <> '{}' AND EXISTS (SELECT FROM farmhand.waiting w WHERE w.locks && n.locks
                AND w.ready_at <= statement_timestamp() AND farmhand.may_keep(w)
                AND (-w.priority, w.ready_at, w.run_id) < (-of_priority, of_ready, of_run))) THEN
        RETURN 'lock';
    END IF;
    IF n.rate_count IS NOT NULL
            AND farmhand.rate_free_at(of_job, n.rate_count, n.rate_ms) > statement_timestamp() THEN
        RETURN 'rate';
    END IF;
    -- Full on every node that may run it. Where none of them is ready, it waits for a node.
    IF n.node_pool IS NOT NULL AND (
            SELECT bool_and(coalesce((SELECT p.size FROM farmhand.pool p WHERE p.name = n.node_pool), 0)
                <= (SELECT count(*) FROM farmhand.holding h
                    WHERE h.node_pool = n.node_pool AND h.running_at = m.address))
            FROM farmhand.run_live r
            JOIN farmhand.node m ON farmhand.takes_work(m, of_node, r.placement)
            WHERE r.run_id = of_run) THEN
        RETURN 'pool';
    END IF;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.waits_for(text, bigint, text, bigint, integer, timestamptz) FROM PUBLIC;
