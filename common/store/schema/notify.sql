-- Notifications. A note is left of each end that people may have to be told of, in the transaction of the
-- end; an agent turns notes into messages, once per episode (core/notify); agents deliver messages under leases.

-- As the job files have them; names of secrets, never secrets.
CREATE TABLE farmhand.notify_target (
    name text PRIMARY KEY CHECK (name <> '' AND name !~ '[[:cntrl:]]'),
    -- What agents could not read would keep them from telling anybody anything.
    spec jsonb NOT NULL CHECK (jsonb_typeof(spec) = 'object' AND jsonb_typeof(coalesce(spec->'email', '[]')) = 'array'
        AND jsonb_typeof(coalesce(spec->'on', '[]')) = 'array' AND NOT spec @? '$.email[*] ? (@.type() <> "string")'
        AND NOT spec @? '$.on[*] ? (@.type() <> "string" || !(@ == "failure" || @ == "recovery" || @ == "takeover" || @ == "deadline" || @ == "slow"))'
        AND array_remove(ARRAY[jsonb_typeof(spec->'webhook'), jsonb_typeof(spec->'webhook_file'),
            jsonb_typeof(spec->'headers_file')], NULL) <@ ARRAY['string', 'null']),
    -- They go into the headers of mails.
    CHECK (spec->>'email' IS NULL OR spec->>'email' !~ '\\[nrtu]'),
    source text NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL
);

-- Which job tells whom, as the present definitions say; written by apply.
CREATE TABLE farmhand.notify_edge (
    job_id text NOT NULL CHECK (job_id !~ '[[:cntrl:]]'),
    target text NOT NULL CHECK (target !~ '[[:cntrl:]]'),
    PRIMARY KEY (job_id, target)
);

-- What nobody has looked at yet. Per job in the order in which it happened.
CREATE TABLE farmhand.notify_note (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id text NOT NULL CHECK (job_id !~ '[[:cntrl:]]'),
    what text NOT NULL CHECK (what IN ('end', 'lost', 'slow')),
    run_id bigint NOT NULL,
    firing bigint,
    attempt integer NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'lost', 'running')),
    reason text,
    exit_code integer,
    signal integer,
    node text,
    due_at timestamptz CHECK (isfinite(due_at)),
    at timestamptz NOT NULL DEFAULT statement_timestamp() CHECK (isfinite(at))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX notify_note_job ON farmhand.notify_note (job_id);

-- Jobs that something is the matter with, as people have been told.
CREATE TABLE farmhand.notify_episode (
    job_id text PRIMARY KEY,
    failing_since timestamptz,
    first_run bigint,
    failures bigint NOT NULL DEFAULT 0,
    late_since timestamptz,
    CHECK (failing_since IS NOT NULL OR late_since IS NOT NULL)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Messages: one row for each target and way of reaching it.
CREATE TABLE farmhand.notification (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    -- In the order in which they were made.
    number bigint GENERATED ALWAYS AS IDENTITY,
    target text NOT NULL CHECK (target !~ '[[:cntrl:]]'),
    channel text NOT NULL CHECK (channel IN ('webhook', 'email')),
    topic text NOT NULL CHECK (topic IN ('failure', 'recovery', 'takeover', 'deadline', 'slow', 'test')),
    job_id text CHECK (job_id !~ '[[:cntrl:]]'),
    run_id bigint,
    -- The same for whoever finds out the same.
    key text NOT NULL,
    body jsonb NOT NULL CHECK (jsonb_typeof(body) = 'object'),
    created_at timestamptz NOT NULL DEFAULT statement_timestamp() CHECK (isfinite(created_at)),
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'failed')),
    tries integer NOT NULL DEFAULT 0,
    -- Not to be tried before; while it is being sent, until when that is left to the sender.
    next_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    sent_by text,
    ended_at timestamptz,
    -- Of the last try that failed.
    error text,
    UNIQUE (target, channel, key),
    CHECK ((state = 'waiting') = (ended_at IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX notification_waits ON farmhand.notification (next_at) WHERE state = 'waiting';
CREATE INDEX notification_order ON farmhand.notification (target, channel, job_id, number) WHERE state = 'waiting';
CREATE INDEX notification_ended ON farmhand.notification (ended_at) WHERE state <> 'waiting';

-- What one agent does for all, every so often: whoever comes first takes the turn.
CREATE TABLE farmhand.notify_turn (
    name text PRIMARY KEY CHECK (name IN ('deadlines', 'ping')),
    at timestamptz NOT NULL,
    taken_by text NOT NULL
) WITH (fillfactor = 50);
INSERT INTO farmhand.notify_turn (name, at, taken_by) VALUES ('deadlines', '-infinity', ''), ('ping', '-infinity', '');

-- Called after count_ends: that one has locked the job's row of job_stat, so that ends of one job get their
-- numbers here in the order in which they are committed, and each sees the notes of those before it. A success is
-- worth a note only when it may end an episode.
CREATE FUNCTION farmhand.tell_ends(ended farmhand.run_end[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO farmhand.notify_note (job_id, what, run_id, firing, attempt, outcome, reason, exit_code, signal, node,
        due_at)
    SELECT e.job_id, 'end', e.run_id, e.firing, e.attempt, e.state, e.reason, e.exit_code, e.signal, e.running_at,
        -- Of an instant that no client could read the note has none: the end has to be written down.
        CASE WHEN isfinite(e.due_at) THEN e.due_at END
    FROM unnest(ended) e
    WHERE e.state IN ('succeeded', 'failed', 'timed_out', 'lost')
        AND EXISTS (SELECT FROM farmhand.notify_edge t WHERE t.job_id = e.job_id)
        AND (e.state <> 'succeeded'
            OR EXISTS (SELECT FROM farmhand.notify_episode p WHERE p.job_id = e.job_id)
            OR EXISTS (SELECT FROM farmhand.notify_note n WHERE n.job_id = e.job_id)
            OR EXISTS (SELECT FROM unnest(ended) f WHERE f.job_id = e.job_id AND f.state IN ('failed', 'timed_out', 'lost')))
    ORDER BY e.finished_at, e.run_id;
END
$$;

-- A run that takes longer than usual. It is told once per run, not again for later attempts.
CREATE FUNCTION farmhand.tell_slow() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO farmhand.notify_note (job_id, what, run_id, firing, attempt, outcome, node, due_at)
    SELECT f.job_id, 'slow', f.run_id, r.firing, f.attempt, 'running', r.running_at,
        CASE WHEN isfinite(r.due_at) THEN r.due_at END
    FROM found f JOIN farmhand.run_live r ON r.run_id = f.run_id
    WHERE EXISTS (SELECT FROM farmhand.notify_edge t WHERE t.job_id = f.job_id)
    ORDER BY f.run_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER tell_slow AFTER INSERT ON farmhand.slow_run
    REFERENCING NEW TABLE AS found FOR EACH STATEMENT EXECUTE FUNCTION farmhand.tell_slow();
