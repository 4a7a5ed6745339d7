-- What somebody said is known: such a cause does not lead the verdict. Nothing else is decided by it: metrics and alerts are
-- what they would be without. A cause is what is wrong and what it is wrong with, as core/cause.rs has it.
CREATE TABLE farmhand.acknowledgement (
    kind text NOT NULL CHECK (kind IN ('late', 'stuck', 'waiting', 'blocked', 'lost', 'expired', 'flapping', 'slow', 'failing')),
    -- Of the job, the run or the node.
    name text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 500 AND name !~ '[[:cntrl:]]'),
    acknowledged_by text NOT NULL CHECK (octet_length(acknowledged_by) BETWEEN 1 AND 500),
    -- Of an occurrence that began later it says nothing.
    at timestamptz NOT NULL,
    until timestamptz NOT NULL,
    note text CHECK (char_length(note) BETWEEN 1 AND 500 AND note !~ '[[:cntrl:]]'),
    PRIMARY KEY (kind, name),
    CHECK (kind NOT IN ('stuck', 'slow') OR name ~ '^[0-9]{1,18}$'),
    CHECK (until > at AND until <= at + interval '720 hours')
);

-- The event of an acknowledgement, found by the job, the run or the node that it is about.
CREATE FUNCTION farmhand.tell_acknowledgement(told text, kind text, name text, detail jsonb) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, address, detail)
    VALUES (statement_timestamp(), told, 'info',
        CASE WHEN kind IN ('late', 'waiting', 'failing') THEN name END,
        CASE WHEN kind IN ('stuck', 'slow') THEN name::bigint END,
        CASE WHEN kind IN ('blocked', 'lost', 'expired', 'flapping') THEN name END,
        jsonb_strip_nulls(detail || jsonb_build_object('cause', kind || ':' || name)))
$$;

-- Acknowledges a cause, again if it was, and returns until when. The clock is the database's.
CREATE FUNCTION farmhand.acknowledge(kind text, name text, by text, lasts interval, note text DEFAULT NULL) RETURNS timestamptz
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO farmhand.acknowledgement (kind, name, acknowledged_by, at, until, note)
        VALUES (kind, name, by, statement_timestamp(), statement_timestamp() + lasts, note)
        ON CONFLICT ON CONSTRAINT acknowledgement_pkey DO UPDATE SET acknowledged_by = excluded.acknowledged_by,
            at = excluded.at, until = excluded.until, note = excluded.note;
    SELECT farmhand.tell_acknowledgement('acknowledged', kind, name,
        jsonb_build_object('by', by, 'until', statement_timestamp() + lasts, 'note', note));
    SELECT statement_timestamp() + lasts
$$;

-- Takes it back; false when there is none that still holds.
CREATE FUNCTION farmhand.unacknowledge(kind text, name text, by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM farmhand.acknowledgement a
        WHERE a.kind = $1 AND a.name = $2 AND a.until > statement_timestamp();
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM farmhand.tell_acknowledgement('unacknowledged', $1, $2, jsonb_build_object('by', $3));
    RETURN true;
END
$$;
