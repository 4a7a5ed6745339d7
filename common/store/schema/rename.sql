-- Jobs that have another name now.

-- Only rename_job writes it. So no login can give a job the history of another job.
CREATE TABLE farmhand.former_name (
    name text PRIMARY KEY,
    job_id text NOT NULL,
    renamed_by text NOT NULL,
    renamed_at timestamptz NOT NULL DEFAULT statement_timestamp()
);

-- A name that is given to another job is no longer a former one. Every job that once had a name has its row, so this is the one way.
CREATE FUNCTION farmhand.forget_former_name() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM farmhand.former_name f WHERE f.name = NEW.job_id;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION farmhand.forget_former_name() FROM PUBLIC;
CREATE TRIGGER forget_former_name AFTER UPDATE OF deleted ON farmhand.job
    FOR EACH ROW WHEN (OLD.deleted AND NOT NEW.deleted) EXECUTE FUNCTION farmhand.forget_former_name();

-- What a job is called that had this name; NULL when it has been deleted since, or never was renamed.
CREATE FUNCTION farmhand.renamed_to(former text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
SELECT f.job_id FROM farmhand.former_name f JOIN farmhand.job j ON j.job_id = f.job_id AND NOT j.deleted
WHERE f.name = former
$$;

-- Gives a job another name, with all that is known of it but its ended runs: those follow by move_runs. False when there is no
-- such job. seq is the number of this change of definitions, whose row the caller has locked. Revisions stay under the former
-- name, too: a run that somebody submits at this moment still finds what to execute. A signature names its job, so it stays behind:
-- signed_anew says that the caller stores another one.
CREATE FUNCTION farmhand.rename_job(former text, new_name text, by text, seq bigint, signed_anew boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    j farmhand.job;
    runs bigint;
BEGIN
    PERFORM FROM farmhand.job l WHERE l.job_id IN (former, new_name) ORDER BY l.job_id FOR UPDATE;
    SELECT * INTO j FROM farmhand.job o WHERE o.job_id = former AND NOT o.deleted;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM farmhand.job o WHERE o.job_id = new_name)
            AND NOT EXISTS (SELECT FROM farmhand.former_name f WHERE f.name = new_name AND f.job_id = former) THEN
        RAISE EXCEPTION 'job "%" cannot be renamed: there is a job "%", or was one', former, new_name USING ERRCODE = '55000',
            HINT = 'take a name that no job has had';
    END IF;
    SELECT count(*) INTO runs FROM (SELECT FROM farmhand.run_live r WHERE r.job_id = former LIMIT 1000) r;
    IF runs > 0 THEN
        RAISE EXCEPTION 'job "%" cannot be renamed: % of its runs have not ended', former, runs USING ERRCODE = '55000',
            HINT = 'pause it, wait for its runs or cancel them, rename it, and resume it';
    END IF;
    IF NOT signed_anew AND EXISTS (SELECT FROM farmhand.job_signature s WHERE s.job_id = former AND s.rev = j.rev) THEN
        RAISE EXCEPTION 'job "%" cannot be renamed: it is signed, and a signature names its job', former USING ERRCODE = '55000',
            HINT = format('rename it in its file, with renamed_from = "%s", sign the file, and apply it', former);
    END IF;
    DELETE FROM farmhand.job o WHERE o.job_id = new_name;
    UPDATE farmhand.job o SET deleted = true, next_run = NULL, seq = rename_job.seq WHERE o.job_id = former;
    j.job_id := new_name;
    j.seq := rename_job.seq;
    INSERT INTO farmhand.job SELECT j.*;
    INSERT INTO farmhand.job_revision SELECT new_name, v.rev, v.spec, v.source, v.applied_by, v.applied_at
        FROM farmhand.job_revision v WHERE v.job_id = former ON CONFLICT DO NOTHING;
    INSERT INTO farmhand.need SELECT new_name, n.rev, n.gate, n.pool, n.node_pool, n.locks, n.rate_count, n.rate_ms
        FROM farmhand.need n WHERE n.job_id = former ON CONFLICT DO NOTHING;
    DELETE FROM farmhand.job_stat s WHERE s.job_id = new_name;
    UPDATE farmhand.job_stat s SET job_id = new_name WHERE s.job_id = former;
    DELETE FROM farmhand.notify_episode p WHERE p.job_id = new_name;
    UPDATE farmhand.notify_episode p SET job_id = new_name WHERE p.job_id = former;
    DELETE FROM farmhand.notify_edge e WHERE e.job_id = new_name;
    UPDATE farmhand.notify_edge e SET job_id = new_name WHERE e.job_id = former;
    UPDATE farmhand.notify_note n SET job_id = new_name WHERE n.job_id = former;
    UPDATE farmhand.submission s SET job_id = new_name WHERE s.job_id = former AND NOT EXISTS (
        SELECT FROM farmhand.submission o WHERE o.job_id = new_name AND o.idempotency_key = s.idempotency_key);
    UPDATE farmhand.row_result w SET job_id = new_name WHERE w.job_id = former;
    UPDATE farmhand.rate_start t SET job_id = new_name WHERE t.job_id = former;
    UPDATE farmhand.triggering t SET child = new_name WHERE t.child = former;
    UPDATE farmhand.triggering t SET parent = new_name WHERE t.parent = former;
    DELETE FROM farmhand.former_name f WHERE f.name = new_name;
    UPDATE farmhand.former_name f SET job_id = new_name WHERE f.job_id = former;
    INSERT INTO farmhand.former_name (name, job_id, renamed_by) VALUES (former, new_name, by)
        ON CONFLICT (name) DO UPDATE SET job_id = excluded.job_id, renamed_by = excluded.renamed_by, renamed_at = excluded.renamed_at;
    INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
        VALUES (statement_timestamp(), 'job_renamed', 'info', new_name, jsonb_build_object('by', by, 'from', former));
    PERFORM pg_notify('farmhand', json_build_object('jobs', rename_job.seq)::text);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION farmhand.rename_job(text, text, text, bigint, boolean) FROM PUBLIC;

-- Gives ended runs the present name of their job, the newest first, at most so many in one transaction; returns how many, so that
-- who calls it goes on while there are any. With the owner's rights: nobody else changes what has been recorded.
CREATE FUNCTION farmhand.move_runs(at_most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f farmhand.former_name;
    taken bigint[];
BEGIN
    IF at_most NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'at_most is %: 1 to 100000 runs', at_most USING ERRCODE = '22023';
    END IF;
    FOR f IN SELECT n.* FROM farmhand.former_name n ORDER BY n.name LOOP
        taken := ARRAY(SELECT h.run_id FROM farmhand.run_history h WHERE h.job_id >= f.name AND h.job_id <= f.name
            ORDER BY h.job_id, h.run_id DESC LIMIT at_most);
        CONTINUE WHEN cardinality(taken) = 0;
        UPDATE farmhand.run_history h SET job_id = f.job_id WHERE h.run_id = ANY (taken) AND h.job_id = f.name;
        UPDATE farmhand.attempt a SET job_id = f.job_id WHERE a.run_id = ANY (taken) AND a.job_id = f.name;
        RETURN cardinality(taken);
    END LOOP;
    RETURN 0;
END
$$;
REVOKE ALL ON FUNCTION farmhand.move_runs(integer) FROM PUBLIC;
