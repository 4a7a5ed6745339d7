-- What people did, and what was refused of those who showed a known token: written by control, in the transaction of the action,
-- and only added to. It is apart from the events because it is kept for longer. The database itself writes when it was done, by
-- which login and from where: no login has a right to give these columns. The login says for whom it was done.
CREATE TABLE farmhand.audit (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT statement_timestamp(),
    login text NOT NULL DEFAULT session_user,
    client inet DEFAULT inet_client_addr(),
    -- A token's name and the address that it was shown from, or the user of a command.
    actor text NOT NULL,
    -- None: with a login of the database alone.
    token_id bigint,
    action text NOT NULL,
    address text,
    job_id text,
    run_id bigint,
    -- Why it was not done.
    refused text,
    -- The command that does the same, or what was asked for.
    what text NOT NULL,
    detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_by_time ON farmhand.audit (at);

-- Ninety days are the least: retention deletes what is older, and no login but the owner's deletes anything else.
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
