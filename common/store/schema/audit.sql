-- What people did, and what was refused: copied from the events that name somebody, whichever statement wrote them,
-- in their transaction. Apart from the events because it is kept for longer, and never changed.
CREATE TABLE farmhand.audit (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    kind text NOT NULL,
    -- Who, as the command or the API said it.
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

CREATE FUNCTION farmhand.keep_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO farmhand.audit (at, kind, actor, role, client, application, address, job_id, run_id, detail)
    VALUES (NEW.at, NEW.kind, left(NEW.detail->>'by', 200), session_user, inet_client_addr(),
        left(current_setting('application_name', true), 200), NEW.address, NEW.job_id, NEW.run_id,
        CASE WHEN octet_length(NEW.detail::text) <= 8192 THEN NEW.detail ELSE '{"cut": true}' END);
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.keep_audit() FROM PUBLIC;
CREATE TRIGGER keep_audit AFTER INSERT ON farmhand.event
    FOR EACH ROW
    WHEN (NEW.detail ? 'by' OR NEW.kind IN ('user_refused', 'definition_refused', 'http_refused')
        OR NEW.kind LIKE 'token\_%' OR NEW.kind LIKE 'login%')
    EXECUTE FUNCTION farmhand.keep_audit();

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
