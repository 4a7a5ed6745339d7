-- History's partitions, made and dropped for an agent that owns nothing.

-- For how many days history is kept at least, whatever retention agents ask for: the owner alone may change it.
CREATE TABLE farmhand.retention (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    at_least integer NOT NULL DEFAULT 7 CHECK (at_least >= 1)
);
INSERT INTO farmhand.retention DEFAULT VALUES;

-- Weekly partitions (from Monday, UTC) of the four histories, this week and weeks_ahead more.
-- With the owner's rights, because only an owner makes and drops tables: fixed names, bounded arguments.
CREATE FUNCTION farmhand.ensure_partitions(weeks_ahead integer) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET lock_timeout = '500ms'
AS $$
DECLARE
    parent text;
    week timestamptz;
    part text;
    key text;
BEGIN
    IF weeks_ahead IS NULL OR weeks_ahead NOT BETWEEN 0 AND 104 THEN
        RAISE EXCEPTION 'weeks_ahead is %: 0 to 104', weeks_ahead USING ERRCODE = '22023';
    END IF;
    FOR parent, key IN VALUES ('run_history', 'finished_at'), ('attempt', 'ended_at'), ('run_log', 'stored_at'),
            ('event', 'at') LOOP
        FOR week IN SELECT date_trunc('week', statement_timestamp()) + n * interval '7 days'
                    FROM generate_series(0, weeks_ahead) n LOOP
            part := format('%s_%s', parent, to_char(week, 'YYYYMMDD'));
            CONTINUE WHEN to_regclass(format('farmhand.%I', part)) IS NOT NULL;
            BEGIN
                -- Of two that get here at once, the second waits here; its look-up by name may still say no.
                PERFORM farmhand.be_alone('partitions', NULL, true);
                -- Made apart and attached: PARTITION OF would lock out everybody who ends a run, behind
                -- the longest reader (a dump, say).
                EXECUTE format('CREATE TABLE farmhand.%I (LIKE farmhand.%I INCLUDING ALL, '
                    'CHECK (%I IS NOT NULL AND %I >= %L AND %I < %L))', part, parent, key, key, week, key,
                    week + interval '7 days');
                -- LIKE does not copy it.
                EXECUTE format('ALTER TABLE farmhand.%I REPLICA IDENTITY FULL', part);
                EXECUTE format('ALTER TABLE farmhand.%I ATTACH PARTITION farmhand.%I FOR VALUES FROM (%L) TO (%L)',
                    parent, part, week, week + interval '7 days');
                RETURN NEXT part;
            EXCEPTION
                WHEN duplicate_table THEN
                    NULL;
                WHEN check_violation THEN
                    -- The default partition already holds rows of that week and keeps taking them.
                    RAISE NOTICE 'rows of % are in the default partition', part;
                WHEN lock_not_available THEN
                    RAISE NOTICE '% is in use; the next call makes %', parent, part;
                    RETURN;
            END;
        END LOOP;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION farmhand.ensure_partitions(integer) FROM PUBLIC;

CREATE VIEW farmhand.history_partition AS
SELECT c.relname::text AS name, p.relname::text AS parent,
    (regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$TO \('([^']+)'\)$re$))[1]::timestamptz AS until
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_class p ON p.oid = i.inhparent
JOIN pg_namespace n ON n.oid = p.relnamespace
WHERE n.nspname = 'farmhand' AND p.relkind = 'p' AND c.relkind = 'r';

-- Drops the oldest partition that ended longer ago than its kind is kept, in days; never what the owner keeps. One at a
-- time: who waits for the second would hold up the first one's readers and writers.
CREATE FUNCTION farmhand.drop_partitions(runs integer, logs integer, events integer) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms'
AS $$
DECLARE
    part text;
BEGIN
    IF least(runs, logs, events) < 1 THEN
        RAISE EXCEPTION 'history is kept for at least a day' USING ERRCODE = '22023';
    END IF;
    SELECT greatest(runs, r.at_least), greatest(logs, r.at_least), greatest(events, r.at_least) INTO runs, logs, events
        FROM farmhand.retention r;
    SELECT h.name INTO part FROM farmhand.history_partition h
    WHERE h.until < statement_timestamp() - CASE h.parent
        WHEN 'run_log' THEN logs WHEN 'event' THEN events ELSE runs END * interval '1 day'
    ORDER BY h.until, h.name LIMIT 1;
    IF part IS NULL THEN
        RETURN;
    END IF;
    BEGIN
        EXECUTE format('DROP TABLE farmhand.%I', part);
        RETURN NEXT part;
    EXCEPTION WHEN lock_not_available OR undefined_table THEN
        -- Whoever ends a run waits behind us meanwhile: no second try.
        RAISE NOTICE 'partition % is in use; the next call drops it', part;
    END;
END
$$;
REVOKE ALL ON FUNCTION farmhand.drop_partitions(integer, integer, integer) FROM PUBLIC;

-- What lies in the default partitions goes in small sets, each a transaction of its own:
-- together with a drop they made every end of a run wait for the last of the rows to be deleted.
--
-- With the owner's rights, as drop_partitions, and for as long. Up to at_most rows of each table; returns
-- how many, so that who calls it goes on while there are any. Rows that somebody holds are left for the next time.
CREATE FUNCTION farmhand.trim_history(runs integer, logs integer, events integer, at_most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    net record;
    gone bigint;
    trimmed bigint := 0;
BEGIN
    IF least(runs, logs, events) < 1 THEN
        RAISE EXCEPTION 'history is kept for at least a day' USING ERRCODE = '22023';
    END IF;
    IF at_most NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'at_most is %: 1 to 100000 rows of a table', at_most USING ERRCODE = '22023';
    END IF;
    SELECT greatest(runs, r.at_least), greatest(logs, r.at_least), greatest(events, r.at_least) INTO runs, logs, events
        FROM farmhand.retention r;
    FOR net IN VALUES ('run_history_default', 'finished_at', runs), ('attempt_default', 'ended_at', runs),
            ('run_log_default', 'stored_at', logs), ('event_default', 'at', events), ('submission', 'at', runs) LOOP
        EXECUTE format('DELETE FROM farmhand.%1$I WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM farmhand.%1$I o WHERE o.%2$I < $1 %3$s
            LIMIT $2 FOR UPDATE SKIP LOCKED))', net.column1, net.column2, CASE net.column1 WHEN 'submission'
            -- A key is good for as long as what was submitted with it has not ended, or is in the history.
            THEN 'AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id = o.run_id OR r.firing = o.run_id)
                AND NOT EXISTS (SELECT FROM farmhand.run_history h WHERE h.run_id = o.run_id)
                AND NOT EXISTS (SELECT FROM farmhand.run_history h WHERE h.firing = o.run_id)' END)
            USING statement_timestamp() - net.column3 * interval '1 day', at_most;
        GET DIAGNOSTICS gone = ROW_COUNT;
        trimmed := trimmed + gone;
    END LOOP;
    RETURN trimmed;
END
$$;
REVOKE ALL ON FUNCTION farmhand.trim_history(integer, integer, integer, integer) FROM PUBLIC;

-- Agents delete what retention and folding delete, and nothing else: of ended runs, only the successes of continuous jobs, which
-- fold into the next one; of what runs recorded, only what is older than the owner keeps it, as the functions above.
CREATE FUNCTION farmhand.keep_history() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = TG_RELID AND pg_has_role(c.relowner, 'USAGE')) THEN
        RETURN OLD;
    END IF;
    IF TG_ARGV[0] = 'run_history' THEN
        IF OLD.kind = 'continuous' AND OLD.state = 'succeeded' THEN
            RETURN OLD;
        END IF;
    ELSIF TG_ARGV[0] <> 'run_log'
            AND OLD.stored_at < statement_timestamp() - (SELECT r.at_least FROM farmhand.retention r) * interval '1 day'
        OR NOT EXISTS (SELECT FROM farmhand.run_history h
            WHERE h.run_id = OLD.run_id AND NOT (h.kind = 'continuous' AND h.state = 'succeeded')) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'what has been recorded goes by retention alone' USING ERRCODE = '42501';
END
$$;
CREATE TRIGGER keep_history BEFORE DELETE ON farmhand.run_history
    FOR EACH ROW EXECUTE FUNCTION farmhand.keep_history('run_history');
CREATE TRIGGER keep_history BEFORE DELETE ON farmhand.run_log
    FOR EACH ROW EXECUTE FUNCTION farmhand.keep_history('run_log');
CREATE TRIGGER keep_history BEFORE DELETE ON farmhand.task
    FOR EACH ROW EXECUTE FUNCTION farmhand.keep_history('task');
CREATE TRIGGER keep_history BEFORE DELETE ON farmhand.stream_item
    FOR EACH ROW EXECUTE FUNCTION farmhand.keep_history('stream_item');
