-- Jobs: what is run and when; definitions by revision; what people ask about a job.

-- One row, updated by every change of a definition: committing order is the order of seq, so that an
-- agent which has read up to n has missed nothing below n.
CREATE TABLE farmhand.job_seq (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL
);
INSERT INTO farmhand.job_seq (seq) VALUES (0);
CREATE TRIGGER count_one AFTER UPDATE ON farmhand.job_seq FOR EACH ROW
    WHEN (NEW.seq NOT BETWEEN OLD.seq AND OLD.seq + 1) EXECUTE FUNCTION farmhand.count_one();

-- Narrow, because every firing rewrites it; the definition itself is in job_revision.
CREATE TABLE farmhand.job (
    job_id text PRIMARY KEY CHECK (job_id <> '' AND job_id !~ '[[:cntrl:]]'),
    rev bigint NOT NULL,
    seq bigint NOT NULL,
    -- What makes its runs, and what each of them does: as the definition has it.
    kind text NOT NULL DEFAULT 'submitted' CHECK (kind IN ('scheduled', 'continuous', 'table', 'triggered', 'submitted')),
    work text NOT NULL DEFAULT 'command' CHECK (work IN ('command', 'flow', 'stream')),
    enabled boolean NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    paused_by text,
    paused_at timestamptz,
    pause_reason text,
    deleted boolean NOT NULL DEFAULT false,
    scheduled boolean NOT NULL,
    next_run timestamptz,
    decided_until timestamptz,
    overlap text NOT NULL CHECK (overlap IN ('skip', 'queue', 'latest', 'replace', 'allow')),
    on_lost text NOT NULL CHECK (on_lost IN ('rerun', 'fail')),
    priority integer NOT NULL,
    hard_ms bigint CHECK (hard_ms > 0),
    -- A scheduled or triggered run that is not claimed for so long is skipped; NULL: it waits.
    claim_within_ms bigint CHECK (claim_within_ms > 0),
    -- Sets of labels, one of which a node must have; NULL: any node.
    placement jsonb[],
    -- As many as in job files: more would take longer than a statement may, and so would the other jobs that it fires.
    instances integer NOT NULL CHECK (instances BETWEEN 1 AND 10000),
    each_node boolean NOT NULL,
    source text NOT NULL,
    applied_by text NOT NULL,
    applied_at timestamptz NOT NULL,
    -- Success is waited for from here on, not from before the pause.
    resumed_at timestamptz,
    -- Its instants are recorded as skipped, and no run of it is made.
    observe boolean NOT NULL DEFAULT false,
    -- What each maker of runs makes of it (`may_make`).
    state text NOT NULL GENERATED ALWAYS AS (CASE WHEN deleted THEN 'deleted' WHEN NOT enabled THEN 'disabled'
        WHEN paused THEN 'paused' WHEN observe THEN 'observing' ELSE 'enabled' END) STORED,
    fires boolean NOT NULL GENERATED ALWAYS AS (enabled AND scheduled AND NOT paused AND NOT deleted) STORED,
    CHECK (NOT (observe AND kind = 'continuous')),
    CHECK (next_run IS NOT NULL OR NOT fires)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX job_next_run ON farmhand.job (next_run) WHERE fires;
CREATE INDEX job_by_seq ON farmhand.job (seq);
CREATE INDEX job_continuous ON farmhand.job (job_id) WHERE kind = 'continuous';

-- Whether agents can read a document: it is not nested too deep, and its numbers fit into theirs. One that they cannot read would keep
-- them from all others. With a path of its own it is called, where a check that took it up as a part of itself would be planned anew for
-- each row that is written.
CREATE FUNCTION farmhand.is_readable(document jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
RETURN NOT (document @? '$.**{100}' OR document @? '$.** ? (@.type() == "number" && (@ > 1e308 || @ < -1e308))');

CREATE TABLE farmhand.job_revision (
    job_id text NOT NULL,
    rev bigint NOT NULL,
    spec jsonb NOT NULL CHECK (jsonb_typeof(spec) = 'object' AND farmhand.is_readable(spec)),
    source text NOT NULL,
    applied_by text NOT NULL,
    applied_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, rev)
);

-- What a maker of runs does with a job in this state: "run", "refuse", "nothing", or record a skip for this reason. The jobs of
-- "schedule" and "rounds" are asked for by `fires` and by their kind. `may_make` in core/making.rs is the same table.
CREATE FUNCTION farmhand.may_make(maker text, state text, observe boolean) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN state = 'enabled' THEN 'run'
    WHEN maker IN ('submit', 'backfill', 'retry', 'replay') THEN CASE WHEN state = 'paused' AND NOT observe THEN 'run' ELSE 'refuse' END
    WHEN state = 'deleted' OR maker IN ('rows', 'rounds') THEN 'nothing'
    WHEN state = 'observing' THEN 'observed'
    WHEN state = 'paused' AND maker <> 'schedule' THEN 'paused'
    WHEN state = 'disabled' AND maker = 'trigger' THEN 'disabled'
    ELSE 'nothing' END;

-- Whether the schedule of an enabled job owes a success: it goes on, or its last instants came after "since".
CREATE FUNCTION farmhand.owes_success(j farmhand.job, since timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT NOT j.paused AND NOT j.observe AND (j.scheduled OR coalesce(j.decided_until > since, false)) $$;

-- What people ask about a job; apart from job, because firing skips a locked job row.
CREATE TABLE farmhand.job_stat (
    job_id text PRIMARY KEY,
    last_run_started timestamptz,
    last_finished timestamptz,
    last_state text,
    last_success timestamptz,
    consecutive_failures integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
