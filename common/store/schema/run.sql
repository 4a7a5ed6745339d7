-- Runs that have not ended, and submissions that must not be made twice.

CREATE SEQUENCE farmhand.run_id_seq;
-- Beside the epoch's number a fence has room for so many: an error is better than a fence of another epoch.
CREATE SEQUENCE farmhand.fence_seq MAXVALUE 1099511627775;

-- Pages are filled to less than a half: a claim changes what several indexes say about a run, so its new version wants room
-- beside the old one. Without it the old one is locked first, which is a record of its own in the log, and another page is
-- written.
CREATE TABLE farmhand.run_live (
    run_id bigint PRIMARY KEY DEFAULT nextval('farmhand.run_id_seq'),
    job_id text NOT NULL,
    rev bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('scheduled', 'submitted', 'triggered', 'backfill', 'retry', 'table',
        'continuous', 'stream', 'flow')),
    instance integer NOT NULL DEFAULT 0,
    instances integer NOT NULL DEFAULT 1,
    node text,
    due_at timestamptz NOT NULL,
    ready_at timestamptz NOT NULL,
    -- A run that no node has claimed by then is skipped (`is_too_late`). The first claim clears this.
    expires_at timestamptz,
    gate text CHECK (gate IN ('overlap', 'pool', 'lock', 'rate')),
    reason text,
    state text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'running')),
    running_at text,
    session bigint,
    attempt integer NOT NULL DEFAULT 0,
    fence bigint,
    retries integer NOT NULL DEFAULT 0,
    takeovers integer NOT NULL DEFAULT 0,
    priority integer NOT NULL DEFAULT 0,
    placement jsonb[],
    overlap text NOT NULL DEFAULT 'allow' CHECK (overlap IN ('skip', 'queue', 'latest', 'replace', 'allow')),
    hard_ms bigint,
    params jsonb NOT NULL DEFAULT '{}',
    -- Facts that are written once, when the run is made: `submitted_by`, `idempotency_key`; `parent_run`, the run that triggered or is
    -- repeated by it; `parents`, of a triggered run the run of each parent that it follows, by the parent's name; `by_hand`: its instant
    -- is of no schedule, somebody submitted it, or the run that triggered it. Of a round `fold_run` and `fold_at`, the record of the
    -- success before, into which a success of this round folds, and its place in the history; and of the first rounds of a continuous
    -- job, which are left to the nodes in turn for three seconds, `spread`: with which node that begins, as the firing says for shards.
    made jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_at timestamptz,
    started_at timestamptz,
    -- Who asked for its end.
    cancel_by text,
    -- Of a row of a user's table, as text. A row has at most one run that has not ended.
    key text,
    -- The first run of several that were made together; NULL for a run that was made alone.
    -- Claims reckon with it.
    firing bigint CHECK (firing BETWEEN 1 AND 4611686018427387903),
    CHECK ((state = 'running') = (running_at IS NOT NULL)),
    CHECK ((state = 'running') = (session IS NOT NULL)),
    CHECK (state = 'due' OR (attempt > 0 AND fence IS NOT NULL AND claimed_at IS NOT NULL)),
    -- A run with needs keeps its gate while it runs (gate.sql).
    CONSTRAINT run_live_gate_state CHECK (state = 'due' OR gate IS NULL OR gate IN ('pool', 'lock', 'rate')),
    CHECK (kind <> 'table' OR key IS NOT NULL),
    -- As of a definition (job.sql): else one run would keep agents from all others.
    CHECK (params = '{}' OR farmhand.is_readable(params)),
    CHECK (NOT made ? 'parents' OR farmhand.is_readable(made->'parents')),
    -- What is no number there would fail the claims, ends and readings of all.
    CHECK (coalesce((made->>'spread')::bigint, 0) BETWEEN 0 AND 2147483647 AND coalesce((made->>'parent_run')::bigint, 0) >= 0
        AND coalesce((made->>'fold_run')::bigint, 0) >= 0 AND coalesce((made->>'fold_at')::timestamptz, 'infinity') > '-infinity')
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2);

-- Whether a run was not claimed in the time that its job gives. Nobody claims it any more, and `end_late` ends it. The names in this
-- function and in `overlaps` are bound here, so that statements take both up as a part of themselves.
CREATE FUNCTION farmhand.is_too_late(r farmhand.run_live) RETURNS boolean
LANGUAGE sql STABLE
RETURN coalesce(r.expires_at <= statement_timestamp(), false);

-- Whether a run stands in the way of others of its job, and they in its. Not rounds, which are never over, not what was submitted
-- for later, until it is to begin, and not what is too late.
CREATE FUNCTION farmhand.overlaps(r farmhand.run_live) RETURNS boolean
LANGUAGE sql STABLE
RETURN r.kind <> 'continuous' AND NOT farmhand.is_too_late(r) AND NOT (r.kind = 'submitted' AND r.attempt = 0 AND r.ready_at > statement_timestamp());

-- The live runs of a job; and what has at most one of them: a row of a table, an instance of a continuous job, a place of an instant.
-- One index for all, because each that a claim changes costs it. Runs of one job, or of one session, share their key, and each stays for
-- a moment. Folding equal keys together costs the claims a tenth and saves nothing that lasts.
CREATE UNIQUE INDEX run_live_job ON farmhand.run_live (job_id, (CASE WHEN key IS NOT NULL THEN 'k' || md5(key)
    WHEN kind = 'continuous' THEN 'c' || instance::text
    WHEN kind = 'scheduled' THEN 's' || extract(epoch FROM due_at AT TIME ZONE 'UTC')::text || ' ' || instance::text || ' ' || coalesce(node, '')
    END)) WITH (deduplicate_items = off);
-- Claims, in their order.
CREATE INDEX run_live_claim ON farmhand.run_live (priority DESC, ready_at, run_id)
    WHERE state = 'due' AND gate IS NULL;
-- What waits for other runs of its job: ends, firings.
CREATE INDEX run_live_gated ON farmhand.run_live (job_id, run_id) WHERE gate = 'overlap';
-- How a firing stands: ends of shards, triggers.
CREATE INDEX run_live_firing ON farmhand.run_live (firing) WHERE firing IS NOT NULL;
-- What waits for a pool, a lock or a rate, kind by kind in the order of claiming; and who holds some.
CREATE INDEX run_live_waits ON farmhand.run_live (state, job_id, rev, priority DESC, ready_at, run_id)
    WHERE gate IN ('pool', 'lock', 'rate');
-- What a session holds: renewals, polls, takeovers, free slots.
CREATE INDEX run_live_held ON farmhand.run_live (running_at, session) WITH (deduplicate_items = off)
    WHERE state = 'running';

-- Submissions with a key, so that each makes its run once. Forgotten by their age.
CREATE TABLE farmhand.submission (
    job_id text NOT NULL,
    idempotency_key text NOT NULL,
    run_id bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, idempotency_key)
);
CREATE INDEX submission_at ON farmhand.submission (at);
