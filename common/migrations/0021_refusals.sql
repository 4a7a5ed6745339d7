-- A node that would not run a revision leaves its runs to those that might.

-- Of the runs that it was noted with, which are all of the revision.
ALTER TABLE farmhand.refusal ADD COLUMN placement jsonb;
CREATE INDEX refusal_by_node ON farmhand.refusal (address, at);

-- The revisions, as "REV JOB", that this node has refused in the last ten minutes while another that is ready and fits has
-- not. The same condition for all nodes: of those that could run one, there is always one that does not leave it alone.
-- Asked by every claim, hence in a language that keeps what it has planned; mostly one probe that finds nothing.
CREATE FUNCTION farmhand.left_to_others(own text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    since timestamptz := statement_timestamp() - interval '10 minutes';
BEGIN
    IF NOT EXISTS (SELECT FROM farmhand.refusal f WHERE f.address = own AND f.at > since) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT f.rev || ' ' || f.job_id
        FROM farmhand.refusal f
        WHERE f.address = own AND f.at > since AND EXISTS (
            SELECT FROM farmhand.node n
            WHERE n.state = 'ready' AND n.address <> own AND (f.placement IS NULL OR n.labels @> f.placement)
                AND NOT EXISTS (SELECT FROM farmhand.refusal o
                    WHERE o.job_id = f.job_id AND o.rev = f.rev AND o.address = n.address AND o.at > since))
        ORDER BY f.at DESC
        LIMIT 1000);
END
$$;

-- As before (0007), but for what is left to others.
CREATE OR REPLACE FUNCTION farmhand.claim_gated(at_address text, of_session bigint, of_life uuid, places integer)
RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    my_labels jsonb;
    now timestamptz;
    left_places integer := places;
    farm_free jsonb;
    node_free jsonb;
    held text[];
    left_alone text[];
    kept text[] := '{}';
    awaited text[] := '{}';
    has_place boolean;
    c record;
BEGIN
    IF NOT farmhand.any_waiting() THEN
        RETURN;
    END IF;
    SELECT n.labels INTO my_labels FROM farmhand.node n
        WHERE n.address = at_address AND n.session = of_session AND n.life = of_life AND n.open
            AND NOT n.condemned AND NOT n.cordoned AND NOT n.draining
            AND EXISTS (SELECT FROM farmhand.timeline WHERE tli = farmhand.current_timeline())
        FOR KEY SHARE OF n;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7377299466905054822);
    now := clock_timestamp();
    left_alone := farmhand.left_to_others(at_address);

    SELECT coalesce(array_agg(l.name), '{}') INTO held
        FROM farmhand.holding h CROSS JOIN LATERAL unnest(h.locks) AS l(name);
    SELECT coalesce(jsonb_object_agg(p.name, p.size - coalesce(u.farm, 0)), '{}'),
            coalesce(jsonb_object_agg(p.name, p.size - coalesce(v.here, 0)), '{}')
        INTO farm_free, node_free
        FROM farmhand.pool p
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
            SELECT w.*, w.placement IS NULL OR my_labels @> w.placement AS fits
            FROM farmhand.waiting w WHERE w.ready_at <= now
        )
        -- The first of each kind, whoever may run it: it may be in front of ours.
        SELECT true AS gated, w.job_id, w.pool, w.node_pool, w.locks, w.rate_count, w.rate_ms, w.run_id, w.priority,
            w.ready_at, w.fits AND (CASE WHEN w.node IS NULL THEN NOT w.rev || ' ' || w.job_id = ANY (left_alone)
                ELSE w.node = at_address END) AS ours
        FROM waiting w
        WHERE EXISTS (SELECT FROM farmhand.node n WHERE n.state = 'ready' AND (w.node IS NULL OR n.address = w.node)
            AND (w.placement IS NULL OR n.labels @> w.placement))
        UNION ALL
        SELECT true, w.job_id, w.pool, w.node_pool, w.locks, w.rate_count, w.rate_ms, o.run_id, o.priority, o.ready_at,
            true
        FROM waiting w
        CROSS JOIN LATERAL (
            SELECT r.run_id, r.priority, r.ready_at FROM farmhand.run_live r
            WHERE r.job_id = w.job_id AND r.rev = w.rev AND r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate')
                AND r.ready_at <= now
                AND (r.node = at_address OR r.node IS NULL AND NOT w.rev || ' ' || w.job_id = ANY (left_alone))
            ORDER BY r.priority DESC, r.ready_at, r.run_id LIMIT places
        ) o
        WHERE w.fits AND o.run_id <> w.run_id
        UNION ALL
        SELECT false, NULL, NULL, NULL, '{}', NULL, NULL, u.run_id, u.priority, u.ready_at, true
        FROM level l
        CROSS JOIN LATERAL (
            SELECT r.run_id, r.priority, r.ready_at FROM farmhand.run_live r
            WHERE r.state = 'due' AND r.gate IS NULL AND r.priority = l.priority AND r.ready_at <= now
                AND (r.node = at_address OR r.node IS NULL AND NOT r.rev || ' ' || r.job_id = ANY (left_alone))
                AND (r.placement IS NULL OR my_labels @> r.placement)
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
        has_place := c.pool IS NULL OR coalesce((farm_free->>c.pool)::integer, 0) > 0;
        IF NOT has_place OR c.locks && (held || kept) THEN
            CONTINUE WHEN c.locks && kept OR c.pool = ANY (awaited);
            kept := kept || c.locks;
            IF NOT has_place THEN
                awaited := awaited || c.pool;
            END IF;
            CONTINUE;
        END IF;
        CONTINUE WHEN NOT c.ours
            OR (c.node_pool IS NOT NULL AND coalesce((node_free->>c.node_pool)::integer, 0) <= 0);
        -- Somebody cancels or replaces it just now: no reason for the farm to wait.
        PERFORM FROM farmhand.run_live r
            WHERE r.run_id = c.run_id AND r.state = 'due' AND r.gate IN ('pool', 'lock', 'rate')
            FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        UPDATE farmhand.run_live r
            SET state = 'running', running_at = at_address, session = of_session, attempt = r.attempt + 1,
                fence = farmhand.current_timeline() * 1099511627776 + nextval('farmhand.fence_seq'),
                claimed_at = clock_timestamp(), started_at = NULL
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
            DELETE FROM farmhand.rate_start s
                WHERE s.job_id = c.job_id AND s.at <= now - c.rate_ms * interval '1 millisecond';
            INSERT INTO farmhand.rate_start (job_id, at, run_id, attempt)
                SELECT c.job_id, now, r.run_id, r.attempt FROM farmhand.run_live r WHERE r.run_id = c.run_id;
        END IF;
    END LOOP;
END
$$;

-- Refused requests to the API are in the audit too: the event is called http_refused.
DROP TRIGGER keep_audit ON farmhand.event;
CREATE TRIGGER keep_audit AFTER INSERT ON farmhand.event
    FOR EACH ROW
    WHEN (NEW.detail ? 'by' OR NEW.kind IN ('user_refused', 'definition_refused', 'http_refused')
        OR NEW.kind LIKE 'token\_%' OR NEW.kind LIKE 'login%')
    EXECUTE FUNCTION farmhand.keep_audit();
