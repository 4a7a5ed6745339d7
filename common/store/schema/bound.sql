-- Which login acts for which node: an option. While no login is bound, the triggers below are disabled and cost nothing.
--
-- They stand behind the statements, which are the same with and without: an honest agent never meets one. Checked is what an
-- agent does as a node. What any agent does for the farm stays open to every login; docs/guides/security.md lists it.

CREATE TABLE farmhand.node_login (
    address text PRIMARY KEY CHECK (address <> ''),
    login text NOT NULL UNIQUE CHECK (login <> ''),
    bound_by text NOT NULL,
    bound_at timestamptz NOT NULL DEFAULT statement_timestamp()
);
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON farmhand.node_login
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('bound_by', 'login');

-- Why this login may not act for the node; NULL when it may. Operators are not asked: they bind and unbind. Who may write
-- `progress` is an agent (or the owner), as in audit.sql.
CREATE FUNCTION farmhand.why_not_as(of_address text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bound text := (SELECT b.login FROM farmhand.node_login b WHERE b.address = of_address);
    own text;
BEGIN
    IF bound = session_user THEN
        RETURN NULL;
    END IF;
    own := (SELECT b.address FROM farmhand.node_login b WHERE b.login = session_user);
    IF (own IS NULL AND bound IS NULL) OR NOT has_table_privilege('farmhand.progress'::regclass, 'INSERT') THEN
        RETURN NULL;
    ELSIF own IS NOT NULL THEN
        RETURN format('the login "%s" is bound to the node "%s" and acts for no other, so not for "%s"', session_user, own,
            of_address);
    END IF;
    RETURN format('the node "%s" is bound to the login "%s", so "%s" may not act for it', of_address, bound, session_user);
END
$$;

-- Whether the node's session is over: then any agent frees what it held.
CREATE FUNCTION farmhand.is_over(of_address text, of_session bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM farmhand.node n WHERE n.address = of_address AND n.session > of_session);
END
$$;

-- A node's row: others may withhold it (pages and APIs do that), and expire it when its lease is over. A clock that was set
-- back shows a renewal in the future, which says nothing: it delays an expiry by a lease at most.
CREATE FUNCTION farmhand.act_as_node() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    why text := farmhand.why_not_as(NEW.address);
    others text[] := '{cordoned, draining, drain_until, withheld_by, withheld_at, state}';
BEGIN
    IF why IS NOT NULL AND TG_OP = 'UPDATE' THEN
        IF to_jsonb(NEW) - others = to_jsonb(OLD) - others THEN
            RETURN NULL;
        ELSIF NOT NEW.open AND OLD.open AND NEW.session = OLD.session + 1 AND NEW.lost_at IS NOT NULL
                AND to_jsonb(NEW) - (others || '{open, session, lost_at}') = to_jsonb(OLD) - (others || '{open, session, lost_at}') THEN
            IF clock_timestamp() NOT BETWEEN OLD.lease_until - OLD.ttl_ms * interval '1 millisecond' AND OLD.lease_until THEN
                RETURN NULL;
            END IF;
            why := format('the lease of the node "%s" is not over: %s', OLD.address, why);
        END IF;
    END IF;
    IF why IS NULL AND TG_OP = 'UPDATE' AND NEW.address <> OLD.address THEN
        why := farmhand.why_not_as(OLD.address);
    END IF;
    IF why IS NOT NULL THEN
        RAISE EXCEPTION '%', why USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END
$$;

-- A run that is held: others may ask for its end, and free it when its session is over.
CREATE FUNCTION farmhand.hold_as_node() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    why text;
    others text[] := '{cancel_requested, cancel_by}';
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.running_at IS NOT NULL THEN
        why := farmhand.why_not_as(OLD.running_at);
        IF why IS NOT NULL THEN
            IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - others = to_jsonb(OLD) - others THEN
                RETURN NULL;
            ELSIF NOT farmhand.is_over(OLD.running_at, OLD.session) THEN
                RAISE EXCEPTION '%', why USING ERRCODE = '42501';
            END IF;
        END IF;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.running_at IS NOT NULL THEN
        -- A run may be for one node alone.
        why := coalesce(farmhand.why_not_as(NEW.running_at),
            CASE WHEN NEW.node <> NEW.running_at THEN farmhand.why_not_as(NEW.node) END);
        IF why IS NOT NULL THEN
            RAISE EXCEPTION '%', why USING ERRCODE = '42501';
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- The end of a run or of an attempt: by whoever held it, and of none that is held still.
CREATE FUNCTION farmhand.end_as_node() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    holder text;
    still text := (SELECT r.running_at FROM farmhand.run_live r WHERE r.run_id = NEW.run_id);
    why text;
BEGIN
    IF TG_ARGV[0] = 'attempt' THEN
        holder := NEW.address;
    ELSE
        holder := NEW.running_at;
    END IF;
    IF holder IS NOT NULL AND NOT (NEW.ended_by = 'takeover' AND farmhand.is_over(holder, NEW.session)) THEN
        why := farmhand.why_not_as(holder);
    END IF;
    IF why IS NULL AND still IS NOT NULL THEN
        why := farmhand.why_not_as(still);
    END IF;
    IF why IS NOT NULL THEN
        RAISE EXCEPTION '%', why USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END
$$;

-- Reports about an attempt: output, progress, tasks. Only the node that holds or held the attempt may write them. With the argument
-- "live" this is checked only while it is held, because after a takeover another node writes the results of rows. Before the first
-- claim anybody may.
CREATE FUNCTION farmhand.report_as_node() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    about record;
    live farmhand.run_live;
    holder text;
    why text;
BEGIN
    IF TG_OP = 'DELETE' THEN
        -- Retention, with the owner's rights.
        IF EXISTS (SELECT FROM pg_class c WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, 'USAGE')) THEN
            RETURN NULL;
        END IF;
        about := OLD;
    ELSE
        about := NEW;
    END IF;
    SELECT * INTO live FROM farmhand.run_live r WHERE r.run_id = about.run_id;
    IF live.attempt = about.attempt OR TG_OP = 'DELETE' THEN
        holder := live.running_at;
    END IF;
    IF holder IS NULL AND TG_OP <> 'DELETE' AND TG_NARGS = 0 THEN
        holder := coalesce((SELECT a.address FROM farmhand.attempt a
                WHERE a.run_id = about.run_id AND a.attempt = about.attempt LIMIT 1),
            (SELECT h.running_at FROM farmhand.run_history h
                WHERE h.run_id = about.run_id AND h.attempt = about.attempt LIMIT 1), live.running_at);
    END IF;
    IF holder IS NOT NULL THEN
        why := farmhand.why_not_as(holder);
    END IF;
    IF why IS NOT NULL THEN
        -- By this name clients tell it from a right that somebody gives back.
        RAISE EXCEPTION '%', why USING ERRCODE = '42501', CONSTRAINT = 'report_as_node';
    END IF;
    RETURN NULL;
END
$$;

-- Rows that name the node that writes them.
CREATE FUNCTION farmhand.write_as_node() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    why text := farmhand.why_not_as(NEW.address);
BEGIN
    IF why IS NOT NULL THEN
        RAISE EXCEPTION '%', why USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END
$$;

-- After, not before: a BEFORE trigger that is disabled still has each row locked first.
CREATE TRIGGER as_node AFTER INSERT OR UPDATE ON farmhand.node FOR EACH ROW EXECUTE FUNCTION farmhand.act_as_node();
CREATE TRIGGER as_node AFTER INSERT ON farmhand.run_live
    FOR EACH ROW WHEN (NEW.running_at IS NOT NULL) EXECUTE FUNCTION farmhand.hold_as_node();
CREATE TRIGGER as_node_update AFTER UPDATE ON farmhand.run_live
    FOR EACH ROW WHEN (OLD.running_at IS NOT NULL OR NEW.running_at IS NOT NULL) EXECUTE FUNCTION farmhand.hold_as_node();
CREATE TRIGGER as_node_delete AFTER DELETE ON farmhand.run_live
    FOR EACH ROW WHEN (OLD.running_at IS NOT NULL) EXECUTE FUNCTION farmhand.hold_as_node();
CREATE TRIGGER as_node AFTER INSERT ON farmhand.run_history FOR EACH ROW EXECUTE FUNCTION farmhand.end_as_node('run');
CREATE TRIGGER as_node AFTER INSERT ON farmhand.attempt FOR EACH ROW EXECUTE FUNCTION farmhand.end_as_node('attempt');
CREATE TRIGGER as_node AFTER INSERT OR UPDATE OR DELETE ON farmhand.progress
    FOR EACH ROW EXECUTE FUNCTION farmhand.report_as_node();
CREATE TRIGGER as_node AFTER INSERT OR UPDATE OR DELETE ON farmhand.stream_item
    FOR EACH ROW EXECUTE FUNCTION farmhand.report_as_node();
CREATE TRIGGER as_node AFTER INSERT OR DELETE ON farmhand.task FOR EACH ROW EXECUTE FUNCTION farmhand.report_as_node();
CREATE TRIGGER as_node AFTER INSERT OR DELETE ON farmhand.run_log FOR EACH ROW EXECUTE FUNCTION farmhand.report_as_node();
CREATE TRIGGER as_node AFTER INSERT ON farmhand.row_result FOR EACH ROW EXECUTE FUNCTION farmhand.report_as_node('live');
CREATE TRIGGER as_node AFTER INSERT OR UPDATE ON farmhand.node_boot
    FOR EACH ROW EXECUTE FUNCTION farmhand.write_as_node();
CREATE TRIGGER as_node AFTER INSERT OR UPDATE ON farmhand.refusal FOR EACH ROW EXECUTE FUNCTION farmhand.write_as_node();
CREATE TRIGGER as_node AFTER UPDATE ON farmhand.snapshot_lease
    FOR EACH ROW WHEN (NEW.address <> '') EXECUTE FUNCTION farmhand.write_as_node();

-- Enables or disables all of them; those of partitions follow. It waits for what writes just now, and others wait for it.
CREATE FUNCTION farmhand.check_logins(wanted boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT g.tgname AS name, g.tgrelid::regclass AS of_table FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
        WHERE c.relnamespace = 'farmhand'::regnamespace AND g.tgname LIKE 'as\_node%' AND g.tgparentid = 0
            AND (g.tgenabled <> 'D') <> wanted
        ORDER BY c.relname, g.tgname
    LOOP
        EXECUTE format('ALTER TABLE %s %s TRIGGER %I', t.of_table, CASE WHEN wanted THEN 'ENABLE' ELSE 'DISABLE' END, t.name);
    END LOOP;
END
$$;
SELECT farmhand.check_logins(false);

-- Binds the node to the login, in place of the one before. With the owner's rights, which enable the triggers.
CREATE FUNCTION farmhand.bind_node(of_address text, to_login text, by_whom text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
    agents text := (SELECT p.prefix || '_agent' FROM farmhand.role_prefix p);
    other text;
BEGIN
    PERFORM farmhand.allow(NULL, 'node_login');
    IF NOT EXISTS (SELECT FROM pg_roles r, pg_roles a
            WHERE r.rolname = to_login AND r.rolcanlogin AND a.rolname = agents AND pg_has_role(r.oid, a.oid, 'MEMBER')) THEN
        RAISE EXCEPTION 'there is no login "%" that is a member of %', to_login, agents USING ERRCODE = '22023',
            HINT = format('as an administrator: CREATE ROLE %I LOGIN PASSWORD ''…'' IN ROLE %I', to_login, agents);
    END IF;
    LOCK TABLE farmhand.node_login IN SHARE ROW EXCLUSIVE MODE;
    SELECT b.address INTO other FROM farmhand.node_login b WHERE b.login = to_login AND b.address <> of_address;
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'the login "%" is bound to the node "%"', to_login, other USING ERRCODE = '22023',
            HINT = format('first: farmhand node unbind %s', other);
    END IF;
    -- Agents name their connections so. Bound now, it would lose its lease and end what it runs.
    SELECT min(a.usename::text) INTO other FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.application_name = left('farmhand ' || of_address, 63)
            AND a.usename <> to_login AND a.pid <> pg_backend_pid();
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'the agent of "%" is connected as "%"', of_address, other USING ERRCODE = '22023',
            HINT = 'first let it connect with the login that it shall have: its database URL, then a restart';
    END IF;
    INSERT INTO farmhand.node_login AS b (address, login, bound_by) VALUES (of_address, to_login, by_whom)
        ON CONFLICT (address) DO UPDATE SET login = excluded.login, bound_by = excluded.bound_by, bound_at = excluded.bound_at;
    PERFORM farmhand.check_logins(true);
END
$$;
REVOKE ALL ON FUNCTION farmhand.bind_node(text, text, text) FROM PUBLIC;

CREATE FUNCTION farmhand.unbind_node(of_address text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
    PERFORM farmhand.allow(NULL, 'node_login');
    LOCK TABLE farmhand.node_login IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM farmhand.node_login WHERE address = of_address;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF NOT EXISTS (SELECT FROM farmhand.node_login) THEN
        PERFORM farmhand.check_logins(false);
    END IF;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION farmhand.unbind_node(text) FROM PUBLIC;
