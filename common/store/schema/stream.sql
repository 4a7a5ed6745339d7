-- Lines of a stream's list: those that were given up, and in a run that replays some, each of those.
CREATE TABLE farmhand.stream_item (
    run_id bigint NOT NULL,
    -- Its number in the list, from 1.
    item bigint NOT NULL CHECK (item > 0),
    -- waiting: to be replayed by this run. refused: no command could be given such a line.
    outcome text NOT NULL CHECK (outcome IN ('waiting', 'succeeded', 'failed', 'timed_out', 'refused')),
    -- The run whose failed line this is.
    of_run bigint,
    -- 0: not tried yet.
    attempt integer NOT NULL CHECK (attempt >= 0),
    address text,
    -- How often it failed.
    failures integer NOT NULL,
    -- Without its newline. Of a refused one, the beginning.
    line bytea NOT NULL,
    -- Of the last try.
    started_at timestamptz,
    ended_at timestamptz,
    exit_code integer,
    signal integer,
    reason text,
    -- The end of what it printed.
    output bytea,
    stored_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, item)
);

-- No line is replayed twice by two people at once.
CREATE UNIQUE INDEX stream_item_replay ON farmhand.stream_item (of_run, item) WHERE of_run IS NOT NULL;
CREATE INDEX stream_item_stored ON farmhand.stream_item (stored_at);

-- What the next attempt of a stream must know beyond its checkpoint: which lines are recorded as given up, the
-- newest 10,000 (a checkpoint is at most seconds older than they are), or, for a replay, the numbers of the lines that are
-- left: the node reads them again from its own list, so that nothing is run that only the database says.
-- A function, so that a claim of anything else does not plan it.
CREATE FUNCTION farmhand.stream_items(run bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM farmhand.stream_item s WHERE s.run_id = run AND s.of_run IS NOT NULL)
        THEN jsonb_build_object('replay', (
            SELECT coalesce(jsonb_agg(s.item ORDER BY s.item), '[]')
            FROM farmhand.stream_item s WHERE s.run_id = run AND s.outcome = 'waiting'))
        ELSE jsonb_build_object('recorded', (
            SELECT coalesce(jsonb_agg(l.item), '[]') FROM (SELECT s.item FROM farmhand.stream_item s
                WHERE s.run_id = run ORDER BY s.item DESC LIMIT 10000) l))
    END
$$;
