-- What outbox.toml works on, and what the agents' role must be allowed to do with it.
CREATE TABLE outbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    address     text NOT NULL,
    body        text NOT NULL,
    -- NULL: to be sent. Set it back to NULL to send the row again.
    dispatched  timestamptz,
    finished    timestamptz,
    exit_code   integer,
    message     text
);

-- The rows that wait are found by this index, however many have been sent. On a table in use: CONCURRENTLY.
CREATE INDEX outbox_waiting ON outbox (id) WHERE dispatched IS NULL;

-- Not needed, but without it a new row waits for the next poll.
CREATE FUNCTION outbox_wakes_the_farm() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('farmhand', '{"table": "outbox"}');
    RETURN NULL;
END
$$;
CREATE TRIGGER outbox_wakes_the_farm AFTER INSERT OR UPDATE OF dispatched ON outbox
    FOR EACH STATEMENT EXECUTE FUNCTION outbox_wakes_the_farm();

-- When the login for rows is not the owner; farmhand_agent instead where there is no such login:
-- GRANT SELECT (id, dispatched), UPDATE (dispatched, finished, exit_code, message) ON outbox TO farmhand_rows;
