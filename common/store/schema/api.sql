-- The HTTP API and its page: who may ask. Only hashes are stored: reading this table gives nobody a way in.
-- Role and jobs never change: another right is another token. Which actions they allow is decided in control.
CREATE TABLE farmhand.api_token (
    token_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    -- SHA-256 of the token's text.
    hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    role text NOT NULL CHECK (role IN ('viewer', 'submitter', 'operator', 'admin')),
    -- Names of jobs, or how they begin, with a * behind; NULL: all, and what is not of one job.
    jobs text[] CHECK (cardinality(jobs) BETWEEN 1 AND 100),
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    -- To the minute.
    last_used_at timestamptz,
    revoked_at timestamptz,
    CHECK (expires_at > created_at)
);

-- A name stands for one token that is good, so that what is written down about it is about nobody else.
CREATE UNIQUE INDEX api_token_name ON farmhand.api_token (name) WHERE revoked_at IS NULL;

-- A browser that showed a token once. It is good for as long as its token is, and no longer than a day. Agents have no right
-- to either table but by the functions below, which want the hash of the credential that was shown.
CREATE TABLE farmhand.web_session (
    hash bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    token_id bigint NOT NULL REFERENCES farmhand.api_token ON DELETE CASCADE,
    remote text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    expires_at timestamptz NOT NULL CHECK (expires_at <= created_at + interval '1 day')
);
CREATE INDEX web_session_token ON farmhand.web_session (token_id);
CREATE INDEX web_session_end ON farmhand.web_session (expires_at);

-- Answers to actions that must not be done twice and that `submission` does not remember.
CREATE TABLE farmhand.api_once (
    -- The token, what was asked, and the key that the caller gave.
    token_id bigint NOT NULL REFERENCES farmhand.api_token ON DELETE CASCADE,
    action text NOT NULL,
    key text NOT NULL,
    answer bigint,
    at timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (token_id, action, key)
);
CREATE INDEX api_once_at ON farmhand.api_once (at);

-- The token with this hash, or of the session with this hash, good or not. Its last use is written once a minute: a token that
-- is used all the time costs next to nothing.
CREATE FUNCTION farmhand.known_credential(shown bytea, as_session boolean)
RETURNS TABLE (token_id bigint, name text, role text, hash text, standing text, jobs text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t farmhand.api_token;
    until timestamptz := 'infinity';
BEGIN
    IF as_session THEN
        SELECT s.token_id, s.expires_at INTO token_id, until FROM farmhand.web_session s WHERE s.hash = shown;
        SELECT a.* INTO t FROM farmhand.api_token a WHERE a.token_id = known_credential.token_id;
    ELSE
        SELECT a.* INTO t FROM farmhand.api_token a WHERE a.hash = shown;
    END IF;
    IF t.token_id IS NULL THEN
        RETURN;
    END IF;
    standing := CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked'
        WHEN least(t.expires_at, until) <= statement_timestamp() THEN 'expired' ELSE 'good' END;
    IF standing = 'good' AND coalesce(t.last_used_at < statement_timestamp() - interval '1 minute', true) THEN
        -- An action that is under way holds the row: then it is written the next time.
        UPDATE farmhand.api_token a SET last_used_at = statement_timestamp()
            WHERE a.token_id = (SELECT l.token_id FROM farmhand.api_token l WHERE l.token_id = t.token_id
                FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    token_id := t.token_id;
    name := t.name;
    role := t.role;
    hash := encode(shown, 'hex');
    jobs := t.jobs;
    RETURN NEXT;
END
$$;
REVOKE ALL ON FUNCTION farmhand.known_credential(bytea, boolean) FROM PUBLIC;

-- Whether the token is good; it cannot be revoked before the caller's transaction ends.
CREATE FUNCTION farmhand.hold_token(id bigint) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT t.token_id FROM farmhand.api_token t
    WHERE t.token_id = id AND t.revoked_at IS NULL AND t.expires_at > statement_timestamp() FOR SHARE
$$;
REVOKE ALL ON FUNCTION farmhand.hold_token(bigint) FROM PUBLIC;

-- Begins a session of the good token with this hash; nothing without one. Those that are over are swept up by those that begin.
CREATE FUNCTION farmhand.begin_session(session bytea, token bytea, from_where text, seconds bigint) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH over AS (
        DELETE FROM farmhand.web_session s USING (
            SELECT hash FROM farmhand.web_session WHERE expires_at < statement_timestamp() LIMIT 100
        ) o WHERE s.hash = o.hash
    ), made AS (
        INSERT INTO farmhand.web_session (hash, token_id, remote, expires_at)
        SELECT session, t.token_id, from_where, least(t.expires_at,
            statement_timestamp() + least(seconds, 86400) * interval '1 second')
        FROM farmhand.api_token t
        WHERE t.hash = token AND t.revoked_at IS NULL AND t.expires_at > statement_timestamp()
        RETURNING token_id
    ), told AS (
        INSERT INTO farmhand.event (at, kind, severity, detail)
        SELECT statement_timestamp(), 'login', 'info', jsonb_build_object('by', t.name || '@' || from_where,
            'token', t.name, 'role', t.role)
        FROM made m JOIN farmhand.api_token t USING (token_id)
    ), audited AS (
        INSERT INTO farmhand.audit (actor, token_id, action, what)
        SELECT t.name || '@' || from_where, t.token_id, 'login', 'sign in to the page'
        FROM made m JOIN farmhand.api_token t USING (token_id)
    )
    SELECT token_id FROM made
$$;
REVOKE ALL ON FUNCTION farmhand.begin_session(bytea, bytea, text, bigint) FROM PUBLIC;

CREATE FUNCTION farmhand.end_session(session bytea) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ DELETE FROM farmhand.web_session WHERE hash = session $$;
REVOKE ALL ON FUNCTION farmhand.end_session(bytea) FROM PUBLIC;
