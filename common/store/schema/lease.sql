-- Named leases, for programs of others and for `farmhand lock`. Fenced, not exclusive: docs/internals/lease.md.
--
-- They share their names with the locks of jobs. A lease holds its name for as long as its row is there, a run for as long as
-- it runs (gate.sql). Whoever takes a name first locks it for the transaction, and then looks what the other side has taken.

CREATE TABLE farmhand.lease (
    name text PRIMARY KEY,
    fence bigint NOT NULL,
    -- A renewal adds one. No clock says that a lease has ended: who takes it over has seen (fence, renewals) stand still for its TTL.
    renewals bigint NOT NULL DEFAULT 0,
    ttl_ms bigint NOT NULL,
    login text NOT NULL,
    -- For people, from here on.
    client text NOT NULL,
    acquired_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- For farmhand.database, which each renewal of each agent reads.
CREATE INDEX lease_ttl ON farmhand.lease (ttl_ms);

CREATE VIEW farmhand.lease_holder AS
SELECT l.name, l.fence, l.login, l.client, l.ttl_ms * interval '1 millisecond' AS ttl, l.acquired_at, l.renewed_at,
    l.renewals
FROM farmhand.lease l;

-- Whether the caller may renew, release and take over what this login holds: its own, an operator's every login's.
CREATE FUNCTION farmhand.leases_of(login text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT login = session_user OR EXISTS (SELECT FROM pg_roles r
        WHERE (r.rolname = (SELECT p.prefix || '_operator' FROM farmhand.role_prefix p)
                OR r.oid = (SELECT c.relowner FROM pg_class c WHERE c.oid = 'farmhand.lease'::regclass))
            AND pg_has_role(session_user, r.oid, 'MEMBER'))
$$;

-- What a lease shows to those who watch it. What was seen on one server says nothing on another, which may be an older copy.
CREATE FUNCTION farmhand.shown_lease(fence bigint, renewals bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', fence, renewals, farmhand.server())
$$;

-- Takes the name if it is free, or if what holds it is `seen`: what an earlier call returned as `held`, and what the caller has
-- seen unchanged for `held_ttl` and 0.2 s by its own stopwatch. Without `held_ttl` a run of a job holds it, until it ends. All
-- NULL: claims are closed.
CREATE FUNCTION farmhand.try_acquire(name text, ttl interval, seen text DEFAULT NULL,
    OUT fence bigint, OUT held text, OUT held_ttl interval)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own_ms bigint := round(extract(epoch FROM ttl) * 1000);
    found_row farmhand.lease;
    run text;
BEGIN
    IF (name <> '' AND octet_length(name) <= 200) IS NOT TRUE THEN
        RAISE EXCEPTION 'a lease has a name of 1 to 200 bytes' USING ERRCODE = '22023';
    END IF;
    -- After a replacement of the database the whole farm waits for the longest lease, so it is bounded.
    IF (own_ms BETWEEN 3000 AND 60000) IS NOT TRUE THEN
        RAISE EXCEPTION 'the lease "%" cannot have a TTL of %', name, coalesce(ttl::text, 'NULL') USING ERRCODE = '22023',
            HINT = 'Write an interval from 3 s to 1 min, such as ''30 s''.';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the lease "%" cannot be watched in a transaction that sees one instant', name
            USING ERRCODE = '25001', HINT = 'Call it in a transaction of its own, READ COMMITTED.';
    END IF;
    LOOP
        SELECT l.* INTO found_row FROM farmhand.lease l WHERE l.name = try_acquire.name;
        held := NULL;
        held_ttl := NULL;
        IF FOUND THEN
            held := farmhand.shown_lease(found_row.fence, found_row.renewals);
            held_ttl := found_row.ttl_ms * interval '1 millisecond';
            IF seen IS DISTINCT FROM held THEN
                RETURN;
            END IF;
            IF NOT farmhand.leases_of(found_row.login) THEN
                RAISE EXCEPTION 'the lease "%" was not released by the login "%"', name, found_row.login
                    USING ERRCODE = '42501', HINT = format(
                        'That login may take it over. An operator may free it: SELECT farmhand.release(%L, %s)', name, found_row.fence);
            END IF;
        END IF;
        -- What came in between is locked, though it is not changed. The savepoint unlocks it, and the name: this transaction may
        -- last, as that of `acquire` does, and the holder could not renew.
        BEGIN
            PERFORM farmhand.be_alone('name', name, true);
            SELECT concat_ws(' ', 'run', h.run_id) INTO run FROM farmhand.holding h
                WHERE try_acquire.name = ANY (h.locks) LIMIT 1;
            IF FOUND THEN
                RAISE no_data_found;
            END IF;
            INSERT INTO farmhand.lease AS l (name, fence, ttl_ms, login, client, acquired_at, renewed_at)
            SELECT try_acquire.name, e.epoch * 1099511627776 + nextval('farmhand.fence_seq'), own_ms, session_user,
                left(concat_ws(' ', nullif(current_setting('application_name', true), ''), inet_client_addr()), 200),
                clock_timestamp(), clock_timestamp()
            FROM farmhand.current_epoch e WHERE e.open
            ON CONFLICT ON CONSTRAINT lease_pkey DO UPDATE SET fence = excluded.fence, renewals = 0, ttl_ms = excluded.ttl_ms,
                login = excluded.login, client = excluded.client, acquired_at = excluded.acquired_at,
                renewed_at = excluded.renewed_at
                WHERE l.fence = found_row.fence AND l.renewals = found_row.renewals
            RETURNING l.fence INTO fence;
            IF fence IS NULL THEN
                RAISE no_data_found;
            END IF;
        EXCEPTION
            WHEN no_data_found THEN NULL;
        END;
        IF run IS NOT NULL OR fence IS NOT NULL OR NOT (SELECT c.open FROM farmhand.current_epoch c) THEN
            held := run;
            held_ttl := NULL;
            RETURN;
        END IF;
        -- Somebody came in between: look again.
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION farmhand.try_acquire(text, interval, text) FROM PUBLIC;

-- The fence, or NULL. It looks ten times a second and counts its own pauses, so a clock that is set changes nothing. Without
-- `wait` it returns NULL as soon as the holder is seen to renew, and after the holder's TTL it takes what stood still.
CREATE FUNCTION farmhand.acquire(name text, ttl interval, wait interval DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    pause CONSTANT interval := '100 milliseconds';
    waited interval := '0';
    -- For how long `seen` has stood still, and for how long it must.
    stood interval := '0';
    needed interval;
    seen text;
    poll record;
BEGIN
    -- The call holds a snapshot, which keeps vacuum from removing rows.
    IF wait > interval '10 minutes' THEN
        RAISE EXCEPTION 'one call waits for the lease "%" for 10 minutes at most, not %', name, wait
            USING ERRCODE = '22023', HINT = 'Call again.';
    END IF;
    LOOP
        SELECT t.* INTO poll FROM farmhand.try_acquire(name, ttl, CASE WHEN stood >= needed THEN seen END) t;
        IF poll.fence IS NOT NULL THEN
            RETURN poll.fence;
        END IF;
        IF seen IS NULL OR poll.held IS DISTINCT FROM seen THEN
            IF wait IS NULL AND (seen IS NOT NULL OR poll.held_ttl IS NULL) THEN
                RETURN NULL;
            END IF;
            seen := poll.held;
            stood := '0';
            needed := poll.held_ttl + interval '200 milliseconds';
        END IF;
        IF waited >= wait THEN
            RETURN NULL;
        END IF;
        PERFORM pg_sleep_for(pause);
        waited := waited + pause;
        stood := stood + pause;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION farmhand.acquire(text, interval, interval) FROM PUBLIC;

-- False: it is no longer the caller's. While claims are closed a holder goes on.
CREATE FUNCTION farmhand.renew(name text, fence bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE farmhand.lease l SET renewals = l.renewals + 1, renewed_at = clock_timestamp()
    WHERE l.name = renew.name AND l.fence = renew.fence AND farmhand.leases_of(l.login);
    RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION farmhand.renew(text, bigint) FROM PUBLIC;

-- Tells the farm of the first run that waits for a lock of this name, now that it is free.
CREATE FUNCTION farmhand.prompt_for_lock(name text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notify('farmhand', json_build_object('due', w.run_id, 'job', w.job_id)::text)
    FROM farmhand.waiting w WHERE prompt_for_lock.name = ANY (w.locks)
    ORDER BY w.priority DESC, w.ready_at, w.run_id LIMIT 1
$$;
REVOKE ALL ON FUNCTION farmhand.prompt_for_lock(text) FROM PUBLIC;

-- False: it was no longer the caller's.
CREATE FUNCTION farmhand.release(name text, fence bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM farmhand.lease l
    WHERE l.name = release.name AND l.fence = release.fence AND farmhand.leases_of(l.login);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM farmhand.prompt_for_lock(name);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION farmhand.release(text, bigint) FROM PUBLIC;

-- The leases that hold what runs wait for: agents watch them, and free those that were left behind.
CREATE FUNCTION farmhand.awaited_leases() RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE WHEN farmhand.any_waiting() THEN (
        SELECT jsonb_agg(jsonb_build_object('name', l.name, 'shown', farmhand.shown_lease(l.fence, l.renewals),
            'ttl_ms', (extract(epoch FROM l.ttl) * 1000)::bigint))
        FROM farmhand.lease_holder l
        WHERE l.name IN (SELECT a.name FROM farmhand.waiting w CROSS JOIN LATERAL unnest(w.locks) AS a(name))) END;
END
$$;

-- Frees a name for the runs that wait for it, if its lease is still the one that the agent has seen unchanged for long enough.
CREATE FUNCTION farmhand.free_lease(name text, seen text, OUT client text, OUT login text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    DELETE FROM farmhand.lease l
    WHERE l.name = free_lease.name AND farmhand.shown_lease(l.fence, l.renewals) = free_lease.seen
        AND (SELECT e.open FROM farmhand.current_epoch e)
        AND EXISTS (SELECT FROM farmhand.waiting w WHERE free_lease.name = ANY (w.locks))
    RETURNING l.client, l.login
$$;
REVOKE ALL ON FUNCTION farmhand.free_lease(text, text) FROM PUBLIC;
