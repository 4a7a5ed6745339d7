-- Who may act on which jobs: a login or a token that has a row here acts on jobs of these names alone, and on nothing that others
-- share. Without a row the role decides alone. What a role may do is in store/sql/roles_grant.sql.
CREATE TABLE farmhand.restriction (
    kind text NOT NULL CHECK (kind IN ('login', 'token')),
    -- Of a token its number: its name may be another's one day.
    name text NOT NULL CHECK (name <> ''),
    -- Names of jobs, or how they begin, with a * behind.
    jobs text[] NOT NULL CHECK (cardinality(jobs) BETWEEN 1 AND 100),
    set_by text NOT NULL,
    set_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (kind, name)
);

-- The decision. NULL is what is not of one job: only who has no row may act on it. A token that is not good may do nothing.
CREATE FUNCTION farmhand.may(kind text, name text, job text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF kind = 'token' AND NOT EXISTS (SELECT FROM farmhand.api_token t WHERE t.token_id = may.name::bigint
            AND t.role <> 'viewer' AND t.revoked_at IS NULL AND t.expires_at > statement_timestamp()) THEN
        RETURN false;
    END IF;
    RETURN NOT EXISTS (SELECT FROM farmhand.restriction s WHERE s.kind = may.kind AND s.name = may.name
        AND NOT EXISTS (SELECT FROM unnest(s.jobs) AS p(jobs)
            WHERE CASE WHEN right(p.jobs, 1) = '*' THEN starts_with(may.job, left(p.jobs, -1)) ELSE may.job = p.jobs END));
END
$$;
REVOKE ALL ON FUNCTION farmhand.may(text, text, text) FROM PUBLIC;

-- The same for whoever asks: the login, and the token for which an agent acts in this transaction. A login that names a token
-- gains nothing by it.
CREATE FUNCTION farmhand.allowed(job text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    token text := nullif(current_setting('farmhand.token', true), '');
BEGIN
    RETURN farmhand.may('login', session_user, job) AND (token IS NULL OR farmhand.may('token', token, job));
END
$$;
REVOKE ALL ON FUNCTION farmhand.allowed(text) FROM PUBLIC;

-- Refuses what is not allowed, and says why. `beyond` is what is not of one job.
CREATE FUNCTION farmhand.allow(job text, beyond text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    token text := coalesce(current_setting('farmhand.token', true), '');
    who text;
BEGIN
    IF farmhand.allowed(job) THEN
        RETURN;
    END IF;
    SELECT concat(s.kind, ' ', coalesce(t.name, s.name), ' is restricted to ', array_to_string(s.jobs, ', ')) INTO who
        FROM farmhand.restriction s LEFT JOIN farmhand.api_token t ON s.kind = 'token' AND t.token_id::text = s.name
        WHERE (s.kind, s.name) IN (('login', session_user), ('token', token)) AND NOT farmhand.may(s.kind, s.name, job)
        ORDER BY s.kind LIMIT 1;
    RAISE EXCEPTION 'not allowed: %; %', coalesce(who, 'the token is not good any more'),
            coalesce('job ' || job || ' is not among them', beyond || ' is beyond them')
        USING ERRCODE = '42501', CONSTRAINT = 'restriction';
END
$$;
REVOKE ALL ON FUNCTION farmhand.allow(text, text) FROM PUBLIC;

-- For each row that is written by somebody other than an agent, or by an agent for a token. Arguments: the column that names the
-- job, then those that name runs, each of which must be of such a job, too. Without arguments the row is not of one job. What was
-- there and what is there now are judged alike, after the statement, so that the runs that it makes are found.
CREATE FUNCTION farmhand.refuse_beyond() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    was jsonb;
    has jsonb;
    written jsonb;
    job text;
    run bigint;
    owner text;
    counter text;
    -- Of a partition, the table that it is a part of.
    of_table text;
BEGIN
    -- Most who write are not restricted: found out by one probe, because thousands of rows may be written at once.
    IF NOT EXISTS (SELECT FROM farmhand.restriction s WHERE s.kind = 'login' AND s.name = session_user)
        AND (coalesce(current_setting('farmhand.token', true), '') = '' OR farmhand.allowed(NULL)) THEN
        RETURN NULL;
    END IF;
    of_table := regexp_replace(TG_TABLE_NAME, '_([0-9]{8}|default)$', '');
    was := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    has := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    -- Who changes a definition counts by one.
    IF of_table = 'job_seq' AND (has->>'seq')::bigint = (was->>'seq')::bigint + 1 THEN
        RETURN NULL;
    END IF;
    -- Counters are raised to the highest number there is: one ahead of its counter would leave none to draw.
    counter := CASE of_table WHEN 'event' THEN 'farmhand.event_id_seq' WHEN 'triggering' THEN 'farmhand.triggering_id_seq'
        WHEN 'notify_note' THEN 'farmhand.notify_note_id_seq' END;
    IF TG_OP = 'INSERT' AND counter IS NOT NULL THEN
        IF coalesce(has->>'event_id', has->>'id')::bigint > coalesce(pg_sequence_last_value(counter::regclass), 0) THEN
            PERFORM farmhand.allow(NULL, 'a number that is still to come');
        END IF;
    END IF;
    -- Before many runs are ended or made, one event says so; each of them is judged by itself.
    IF of_table = 'event' AND TG_OP = 'INSERT' AND has->>'kind' IN ('cancel_many', 'retry_many')
            AND has->>'run_id' IS NULL AND has->>'job_id' IS NULL THEN
        RETURN NULL;
    END IF;
    FOREACH written IN ARRAY array_remove(ARRAY[was, has], NULL) LOOP
        job := written->>TG_ARGV[0];
        FOR run IN SELECT (written->>c)::bigint FROM unnest(TG_ARGV[1:]) c WHERE written->>c IS NOT NULL LOOP
            -- A number that is still to come would be in the way of another's run.
            IF run > (SELECT s.last_value FROM farmhand.run_id_seq s) THEN
                PERFORM farmhand.allow(NULL, 'a run that is still to come');
            END IF;
            FOR owner IN SELECT r.job_id FROM farmhand.run_live r WHERE r.run_id = run
                    UNION SELECT h.job_id FROM farmhand.run_history h WHERE h.run_id = run LOOP
                PERFORM farmhand.allow(owner);
                job := coalesce(job, owner);
            END LOOP;
        END LOOP;
        PERFORM farmhand.allow(job, of_table);
    END LOOP;
    CASE of_table
    WHEN 'run_live' THEN
        -- Only agents start and hold runs.
        IF EXISTS (SELECT FROM unnest(ARRAY['state', 'running_at', 'session', 'attempt', 'fence']) c
                WHERE has->c <> coalesce(was, '{"state": "due", "running_at": null, "session": null, "attempt": 0,
                    "fence": null}')->c) THEN
            PERFORM farmhand.allow(NULL, 'who holds a run');
        END IF;
    WHEN 'job' THEN
        -- A number ahead of all others would hide what is changed after it.
        IF (has->>'seq')::bigint > (SELECT q.seq FROM farmhand.job_seq q) THEN
            PERFORM farmhand.allow(NULL, 'job_seq');
        END IF;
    WHEN 'triggering' THEN
        -- The end of a job's run is told to those that follow the job, another team's too, because that team said so.
        IF TG_OP = 'INSERT' AND NOT EXISTS (SELECT FROM farmhand.trigger_edge e
                WHERE e.parent = has->>'parent' AND e.child = has->>'child') THEN
            PERFORM farmhand.allow(has->>'child');
        END IF;
    ELSE
    END CASE;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.refuse_beyond() FROM PUBLIC;

DO $$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT * FROM (VALUES
            ('refuse_beyond', 'job', 'job_id'),
            ('refuse_beyond', 'job_revision', 'job_id'),
            ('refuse_beyond', 'job_signature', 'job_id'),
            ('refuse_beyond', 'job_stat', 'job_id'),
            ('refuse_beyond', 'need', 'job_id'),
            ('refuse_beyond', 'refusal', 'job_id'),
            ('refuse_beyond', 'notify_edge', 'job_id'),
            ('refuse_beyond', 'notify_episode', 'job_id'),
            -- A job may follow another team's, which it does not change; none of another team's is made to follow it.
            ('refuse_beyond', 'trigger_edge', 'child'),
            ('refuse_beyond_insert', 'triggering', 'parent, run_id, firing'),
            ('refuse_beyond_update', 'triggering', 'child'),
            ('refuse_beyond', 'pending', 'job_id'),
            ('refuse_beyond', 'run_live', 'job_id, run_id, firing'),
            ('refuse_beyond', 'run_history', 'job_id, run_id, firing'),
            ('refuse_beyond', 'notify_note', 'job_id, run_id, firing'),
            ('refuse_beyond', 'event', 'job_id, run_id'),
            ('refuse_beyond', 'task', 'job_id, run_id'),
            ('refuse_beyond', 'stream_item', 'job_id, run_id, of_run'),
            -- Of one job is nothing of these.
            ('refuse_beyond', 'job_seq', ''),
            ('refuse_beyond', 'attempt', ''),
            ('refuse_beyond', 'node', ''),
            ('refuse_beyond', 'pool', ''),
            ('refuse_beyond', 'notify_target', ''),
            ('refuse_beyond', 'notification', ''),
            ('refuse_beyond', 'api_token', ''),
            ('refuse_beyond', 'web_session', '')
        ) AS v(trigger, name, columns)
    LOOP
        -- Who may write `progress` is an agent (or the owner).
        EXECUTE format('CREATE TRIGGER %I AFTER %s ON farmhand.%I FOR EACH ROW
            WHEN (current_setting(''farmhand.token'', true) <> ''''
                OR NOT has_table_privilege(session_user, ''farmhand.progress''::regclass, ''INSERT''))
            EXECUTE FUNCTION farmhand.refuse_beyond(%s)', t.trigger,
            CASE t.trigger WHEN 'refuse_beyond_insert' THEN 'INSERT' WHEN 'refuse_beyond_update' THEN 'UPDATE OR DELETE'
                ELSE 'INSERT OR UPDATE OR DELETE' END, t.name, t.columns);
    END LOOP;
END
$$;

-- Before, because afterwards the restriction could be gone.
CREATE FUNCTION farmhand.keep_restriction() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM farmhand.allow(NULL, TG_TABLE_NAME);
    RETURN NULL;
END
$$;
CREATE TRIGGER keep_restriction BEFORE INSERT OR UPDATE OR DELETE ON farmhand.restriction
    FOR EACH STATEMENT EXECUTE FUNCTION farmhand.keep_restriction();

-- What could not restrict anybody is refused, so that nobody leans on it.
CREATE FUNCTION farmhand.check_restriction() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(NEW.jobs) p WHERE (p ~ '^[^*[:cntrl:]]+[*]?$') IS NOT TRUE) THEN
        RAISE EXCEPTION 'not names of jobs: %', array_to_string(NEW.jobs, ', ', 'NULL') USING ERRCODE = '22023',
            HINT = 'Write the name of a job, or how names begin and a * behind it, such as team-a.*';
    END IF;
    IF NEW.kind = 'login' AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = NEW.name) THEN
        RAISE EXCEPTION 'the database has no login %', NEW.name USING ERRCODE = '22023',
            HINT = 'Make it first: CREATE ROLE … LOGIN IN ROLE farmhand_operator';
    END IF;
    IF NEW.kind = 'login' AND has_table_privilege(NEW.name, 'farmhand.progress', 'INSERT') THEN
        RAISE EXCEPTION 'the login % cannot be restricted: it has the rights of an agent or of the owner', NEW.name
            USING ERRCODE = '22023', HINT = 'Use a login that is a member of the operators or submitters alone.';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER check_restriction BEFORE INSERT OR UPDATE ON farmhand.restriction
    FOR EACH ROW EXECUTE FUNCTION farmhand.check_restriction();
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON farmhand.restriction
    FOR EACH ROW EXECUTE FUNCTION farmhand.note_change('set_by', 'kind', 'name', 'jobs');
