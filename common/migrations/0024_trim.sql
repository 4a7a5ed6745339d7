-- Retention that holds nobody up: what lies in the default partitions goes in small sets, each a transaction of its own,
-- and a drop is one partition. Both in one transaction made every end of a run wait for the last of the rows to be deleted.

-- With the owner's rights, as drop_partitions: of a history never the last day. Up to at_most rows of each table; returns
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
    FOR net IN VALUES ('run_history_default', 'finished_at', runs), ('attempt_default', 'ended_at', runs),
            ('run_log_default', 'stored_at', logs), ('event_default', 'at', events), ('submission', 'at', runs) LOOP
        EXECUTE format('DELETE FROM farmhand.%1$I WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM farmhand.%1$I o WHERE o.%2$I < $1
            LIMIT $2 FOR UPDATE SKIP LOCKED))', net.column1, net.column2)
            USING statement_timestamp() - net.column3 * interval '1 day', at_most;
        GET DIAGNOSTICS gone = ROW_COUNT;
        trimmed := trimmed + gone;
    END LOOP;
    RETURN trimmed;
END
$$;
REVOKE ALL ON FUNCTION farmhand.trim_history(integer, integer, integer, integer) FROM PUBLIC;

-- As before, but one partition at a time: who waits for the second would hold up the first one's readers and writers.
CREATE OR REPLACE FUNCTION farmhand.drop_partitions(runs integer, logs integer, events integer) RETURNS SETOF text
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

-- What was submitted with a key is forgotten by its age.
CREATE INDEX submission_at ON farmhand.submission (at);
