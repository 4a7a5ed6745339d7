-- What people did, and what was refused: copied from the events that name somebody, whichever statement wrote them,
-- and from the rows that matter (`changed_…`), in their transaction. Apart from the events because it is kept for longer, and
-- never changed. When and by which login is the database's word; whom that login did it for is the login's own.
CREATE TABLE farmhand.audit (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    kind text NOT NULL,
    -- The login, and whom it said it acts for.
    actor text,
    -- The database's own words for who and from where.
    role text NOT NULL,
    client inet,
    application text,
    address text,
    job_id text,
    run_id bigint,
    detail jsonb NOT NULL
);
CREATE INDEX audit_by_time ON farmhand.audit (at);

CREATE FUNCTION farmhand.note_action(kind text, said text, address text, job_id text, run_id bigint, detail jsonb)
RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO farmhand.audit (at, kind, actor, role, client, application, address, job_id, run_id, detail)
    VALUES (statement_timestamp(), kind, left(session_user || coalesce(': ' || said, ''), 200), session_user,
        inet_client_addr(), left(current_setting('application_name', true), 200), address, job_id, run_id,
        CASE WHEN octet_length(detail::text) <= 8192 THEN detail ELSE '{"cut": true}' END)
$$;
REVOKE ALL ON FUNCTION farmhand.note_action(text, text, text, text, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION farmhand.keep_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM farmhand.note_action(NEW.kind, NEW.detail->>'by', NEW.address, NEW.job_id, NEW.run_id, NEW.detail);
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.keep_audit() FROM PUBLIC;
CREATE TRIGGER keep_audit AFTER INSERT ON farmhand.event
    FOR EACH ROW
    WHEN (NEW.detail ? 'by' OR NEW.kind IN ('user_refused', 'definition_refused', 'http_refused')
        OR NEW.kind LIKE 'token\_%' OR NEW.kind LIKE 'login%')
    EXECUTE FUNCTION farmhand.keep_audit();

-- What happened is written down as it happens: a login other than the owner's that says another time is refused.
CREATE FUNCTION farmhand.refuse_other_times() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM told t WHERE t.at NOT BETWEEN transaction_timestamp() AND clock_timestamp())
        AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION 'an event is of now' USING ERRCODE = '42501', HINT = 'Leave its time to the database.';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER refuse_other_times AFTER INSERT ON farmhand.event
    REFERENCING NEW TABLE AS told FOR EACH STATEMENT EXECUTE FUNCTION farmhand.refuse_other_times();

-- Rows that say what is run, who may do what, and who is told: a change of them is recorded, whoever made it with which
-- statement. Arguments: the column that names who did it (or nothing), then the columns that are shown. A hash is never
-- shown, only that it is another.
CREATE FUNCTION farmhand.note_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    was jsonb := CASE TG_OP WHEN 'INSERT' THEN '{}' ELSE to_jsonb(OLD) END;
    has jsonb := CASE TG_OP WHEN 'DELETE' THEN '{}' ELSE to_jsonb(NEW) END;
    known jsonb := was || has;
    -- Who paused a job is named for the pause alone, and who applied a revision when it is applied, not when it is copied.
    said text := CASE WHEN CASE TG_TABLE_NAME
            WHEN 'job' THEN (has->>'paused')::boolean AND was->'paused' IS DISTINCT FROM has->'paused'
            WHEN 'job_revision' THEN (has->>'applied_at')::timestamptz >= transaction_timestamp()
            ELSE true END THEN has->>TG_ARGV[0] END;
    shown jsonb;
BEGIN
    SELECT jsonb_object_agg(c.name, CASE c.name WHEN 'hash' THEN '["hidden", "hidden"]'
            ELSE jsonb_build_array(left(was->>c.name, 500), left(has->>c.name, 500)) END) INTO shown
        FROM unnest(TG_ARGV[1:]) AS c(name) WHERE was->c.name IS DISTINCT FROM has->c.name;
    IF shown IS NOT NULL THEN
        PERFORM farmhand.note_action('changed_' || TG_TABLE_NAME, said, known->>'address',
            known->>'job_id', (known->>'run_id')::bigint,
            jsonb_build_object('op', lower(TG_OP), 'name', known->>'name', 'columns', shown));
    END IF;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.note_change() FROM PUBLIC;

-- The same for runs that are made, ended and taken away, an entry for each job: ten thousand may come at once.
CREATE FUNCTION farmhand.note_runs() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Who ended a run is not who made it.
    PERFORM farmhand.note_action('changed_' || TG_TABLE_NAME,
            CASE WHEN TG_TABLE_NAME = 'run_history' THEN min(m.cancel_by) WHEN TG_OP = 'INSERT' THEN min(to_jsonb(m)->'made'->>'submitted_by') END,
            NULL, m.job_id, min(m.run_id),
            jsonb_build_object('op', lower(TG_OP), 'runs', count(*), 'kind', min(m.kind), 'state', min(m.state)))
        FROM made m GROUP BY m.job_id;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.note_runs() FROM PUBLIC;

CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON farmhand.job_revision
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('applied_by', 'rev', 'spec');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OF document, signature OR DELETE ON farmhand.job_signature
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('stored_by', 'rev', 'key_name', 'signature', 'document');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON farmhand.notify_target
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('changed_by', 'spec');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OF name, hash, role, created_by, expires_at, revoked_at OR DELETE
    ON farmhand.api_token
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('', 'name', 'hash', 'role', 'created_by', 'expires_at', 'revoked_at');
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OF size OR DELETE ON farmhand.pool
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('changed_by', 'size');
CREATE TRIGGER note_change AFTER UPDATE OF rev, enabled, paused, deleted, overlap, on_lost, priority, hard_ms,
        placement, instances, each_node, observe, source OR DELETE ON farmhand.job
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('paused_by', 'rev', 'enabled', 'paused', 'deleted', 'overlap', 'on_lost',
        'priority', 'hard_ms', 'placement', 'instances', 'each_node', 'observe', 'source');

-- Rows that one `job apply` writes by the thousand: an entry for each statement, with the first twenty.
CREATE FUNCTION farmhand.note_rows() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM farmhand.note_action('changed_' || TG_TABLE_NAME, NULL, NULL, NULL, NULL, jsonb_build_object('op', lower(TG_OP),
            'rows', count(*), 'some', jsonb_agg(left(c.row::text, 250)) FILTER (WHERE c.nth <= 20)))
        FROM (SELECT to_jsonb(w) AS row, row_number() OVER () AS nth FROM written w) c HAVING count(*) > 0;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.note_rows() FROM PUBLIC;
DO $$
DECLARE
    t text;
    op text;
BEGIN
    FOREACH t IN ARRAY ARRAY['job', 'notify_edge', 'trigger_edge', 'need'] LOOP
        FOREACH op IN ARRAY ARRAY['INSERT', 'UPDATE', 'DELETE'] LOOP
            -- Of a job, these are watched column by column.
            CONTINUE WHEN t = 'job' AND op <> 'INSERT';
            EXECUTE format('CREATE TRIGGER note_%s AFTER %s ON farmhand.%I REFERENCING %s TABLE AS written
                FOR EACH STATEMENT EXECUTE FUNCTION farmhand.note_rows()', lower(op), op, t,
                CASE op WHEN 'DELETE' THEN 'OLD' ELSE 'NEW' END);
        END LOOP;
    END LOOP;
END
$$;

-- What agents do all day is not in the audit: schedules that move on, runs that are made, claimed and ended, nodes that open and close.
-- Who may write `progress` is an agent (or the owner); everybody else who writes these rows is noted.
CREATE TRIGGER note_schedule AFTER UPDATE OF next_run, scheduled ON farmhand.job
    FOR EACH ROW WHEN ((NEW.next_run, NEW.scheduled) IS DISTINCT FROM (OLD.next_run, OLD.scheduled)
        AND NOT has_table_privilege('farmhand.progress'::regclass, 'INSERT'))
    EXECUTE FUNCTION farmhand.note_change('', 'next_run', 'scheduled');
CREATE TRIGGER note_change AFTER UPDATE OF cancel_by, job_id, rev, kind, instance, node, due_at, ready_at, priority,
        placement, params, key ON farmhand.run_live
    FOR EACH ROW WHEN (OLD.cancel_by IS NULL AND NEW.cancel_by IS NOT NULL
        OR NOT has_table_privilege('farmhand.progress'::regclass, 'INSERT'))
    EXECUTE FUNCTION farmhand.note_change('cancel_by', 'cancel_by', 'job_id', 'rev', 'kind', 'instance',
        'node', 'due_at', 'ready_at', 'priority', 'placement', 'params', 'key');
CREATE TRIGGER note_removal AFTER DELETE ON farmhand.run_live REFERENCING OLD TABLE AS made
    FOR EACH STATEMENT WHEN (NOT has_table_privilege('farmhand.progress'::regclass, 'INSERT'))
    EXECUTE FUNCTION farmhand.note_runs();
CREATE TRIGGER note_runs AFTER INSERT ON farmhand.run_live REFERENCING NEW TABLE AS made
    FOR EACH STATEMENT WHEN (NOT has_table_privilege('farmhand.progress'::regclass, 'INSERT'))
    EXECUTE FUNCTION farmhand.note_runs();
CREATE TRIGGER note_runs AFTER INSERT ON farmhand.run_history REFERENCING NEW TABLE AS made
    FOR EACH STATEMENT WHEN (NOT has_table_privilege('farmhand.progress'::regclass, 'INSERT'))
    EXECUTE FUNCTION farmhand.note_runs();
CREATE TRIGGER note_change AFTER UPDATE OF cordoned, draining, drain_until, leaving, session, open, ttl_ms, lease_until, slots, labels ON farmhand.node
    FOR EACH ROW WHEN ((NEW.cordoned, NEW.draining, NEW.drain_until) IS DISTINCT FROM (OLD.cordoned, OLD.draining, OLD.drain_until)
        OR NOT has_table_privilege('farmhand.progress'::regclass, 'INSERT'))
    EXECUTE FUNCTION farmhand.note_change('', 'cordoned', 'draining', 'drain_until', 'leaving', 'session', 'open', 'ttl_ms',
        'lease_until', 'slots', 'labels');
CREATE TRIGGER note_removal AFTER DELETE ON farmhand.node
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('', 'name', 'session', 'labels');
CREATE TRIGGER note_removal AFTER DELETE ON farmhand.refusal
    FOR EACH ROW WHEN (NOT has_table_privilege('farmhand.progress'::regclass, 'INSERT'))
    EXECUTE FUNCTION farmhand.note_change('', 'rev', 'why');

-- A copy as it happens, in the server's log: there whoever owns the database cannot take it back. Not by NOTIFY, which every login
-- may hear.
CREATE FUNCTION farmhand.tell_audit() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE LOG 'farmhand audit %', to_jsonb(NEW);
    RETURN NULL;
END
$$;
CREATE TRIGGER tell_audit AFTER INSERT ON farmhand.audit
    FOR EACH ROW WHEN (NEW.kind <> 'run_submitted') EXECUTE FUNCTION farmhand.tell_audit();

-- Ninety days are the least: retention deletes what is older, and nobody deletes anything else.
CREATE FUNCTION farmhand.refuse_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.at < statement_timestamp() - interval '90 days' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit is only ever added to' USING ERRCODE = '42501',
        HINT = 'Rows older than 90 days go by retention.';
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON farmhand.audit
    FOR EACH ROW EXECUTE FUNCTION farmhand.refuse_change();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON farmhand.audit
    FOR EACH STATEMENT EXECUTE FUNCTION farmhand.refuse_change();

CREATE FUNCTION farmhand.forget_audit(days integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (
        DELETE FROM farmhand.audit WHERE at < statement_timestamp() - greatest(days, 91) * interval '1 day' RETURNING 1
    )
    SELECT count(*) FROM gone
$$;
REVOKE ALL ON FUNCTION farmhand.forget_audit(integer) FROM PUBLIC;
