-- What each role may do, the whole of it: everything else is taken away again, so that this list is the truth after
-- every `farmhand migrate`.
-- Objects that this database has not got are passed over, so are roles that the cluster has not got.
DO $$
DECLARE
    prefix text := current_setting('farmhand.role_prefix');
    -- With another prefix the roles of before lose what they had.
    former text := coalesce((SELECT p.prefix FROM farmhand.role_prefix p), prefix);
    kinds text[] := ARRAY['agent', 'submitter', 'operator', 'viewer', 'rows'];
    thing record;
    g record;
    who text;
BEGIN
    -- Partitions have no grants of their own: rights are asked of the table that is named.
    FOR thing IN
        SELECT c.oid, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name,
            c.relowner AS owner, c.relacl AS acl
        FROM pg_class c
        WHERE c.relnamespace = 'farmhand'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
            AND (NOT c.relispartition OR c.relacl IS NOT NULL)
        UNION ALL
        SELECT p.oid, 'FUNCTION', p.oid::regprocedure::text, p.proowner,
            coalesce(p.proacl, acldefault('f', p.proowner))
        FROM pg_proc p WHERE p.pronamespace = 'farmhand'::regnamespace
    LOOP
        IF thing.kind <> 'FUNCTION' OR EXISTS (SELECT FROM aclexplode(thing.acl) a WHERE a.grantee = 0) THEN
            EXECUTE format('REVOKE ALL ON %s %s FROM PUBLIC', thing.kind, thing.name);
        END IF;
        FOR who IN SELECT r.rolname FROM pg_roles r, unnest(kinds) k
                WHERE r.rolname IN (prefix || '_' || k, former || '_' || k) LOOP
            EXECUTE format('REVOKE ALL ON %s %s FROM %I', thing.kind, thing.name, who);
        END LOOP;
    END LOOP;
    EXECUTE 'REVOKE ALL ON SCHEMA farmhand FROM PUBLIC';
    FOR who IN SELECT r.rolname FROM pg_roles r, unnest(kinds) k
            WHERE r.rolname = former || '_' || k LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA farmhand FROM %I', who);
    END LOOP;

    FOREACH who IN ARRAY kinds LOOP
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = prefix || '_' || who) THEN
            EXECUTE format('GRANT USAGE ON SCHEMA farmhand TO %I', prefix || '_' || who);
        END IF;
    END LOOP;

    FOR g IN
        -- r: SELECT, a: INSERT, w: UPDATE, d: DELETE; in brackets the columns that alone may be updated.
        SELECT 'TABLE' AS kind, format('farmhand.%I', t.name) AS name, w.who, concat_ws(', ',
            CASE WHEN w.may LIKE '%r%' THEN 'SELECT' END,
            CASE WHEN w.may LIKE '%a%' THEN 'INSERT' END,
            CASE WHEN w.may LIKE '%w%' THEN 'UPDATE ' || coalesce(substring(w.given FROM '[(].*[)]'), '') END,
            CASE WHEN w.may LIKE '%d%' THEN 'DELETE' END) AS may
        FROM (VALUES
            -- What is run, when and as whom. Agents read it and move its schedule on, and a page or an API that an
            -- agent serves may pause a job and resize a pool.
            ('job', 'rw(next_run, scheduled, decided_until, paused, paused_by, paused_at, pause_reason, resumed_at, seq)',
                'raw', 'r'),
            ('job_revision', 'r', 'ra', 'r'),
            ('need', 'r', 'ra', 'r'),
            ('trigger_edge', 'r', 'rawd', 'r'),
            ('notify_target', 'r', 'rawd', 'r'),
            ('notify_edge', 'r', 'rawd', 'r'),
            ('pool', 'rw(size, changed_by, changed_at)', 'rawd', 'r'),
            ('job_seq', 'rw', 'rw', 'r'),
            -- Runs.
            ('run_live', 'rawd', 'rawd', 'r'),
            ('run_history', 'rad', 'ra', 'r'),
            ('attempt', 'ra', 'ra', 'r'),
            ('job_stat', 'raw', 'raw', 'r'),
            ('task', 'rad', 'ra', 'r'),
            ('stream_item', 'rawd', 'ra', 'r'),
            ('progress', 'rawd', 'r', 'r'),
            ('slow_run', 'rawd', 'r', 'r'),
            ('row_result', 'rawd', 'r', 'r'),
            ('rate_start', 'rawd', 'r', 'r'),
            ('submission', 'r', 'r', 'r'),
            ('run_log', 'rad', 'r', 'r'),
            ('event', 'ra', 'ra', 'r'),
            ('triggering', 'rawd', 'rawd', 'r'),
            ('pending', 'rad', 'rad', 'r'),
            -- Telling people.
            ('notify_note', 'rad', 'ra', 'r'),
            ('notify_episode', 'rawd', 'rd', 'r'),
            ('notification', 'rawd', 'ra', 'r'),
            ('notify_turn', 'rw', 'r', 'r'),
            -- Nodes and the protocol.
            ('node', 'raw', 'rwd', 'r'),
            ('node_boot', 'raw', 'r', 'r'),
            ('epoch', 'raw(server, longest_lease_ms)', 'r', 'r'),
            ('farm', 'rw(pulse, seen_epoch, seen_run)', 'r', 'r'),
            ('snapshot_lease', 'rw', 'r', 'r'),
            ('schema_version', 'r', 'r', 'r'),
            ('retention', 'r', 'r', 'r'),
            ('role_prefix', 'r', 'r', 'r'),
            -- The HTTP API. Hashes only; still nobody but agents needs them, and only people make tokens.
            ('api_token', '', 'raw(last_used_at, revoked_at)', ''),
            ('web_session', '', 'rd', ''),
            ('api_once', 'rawd', '', ''),
            -- Who vouched for what, who would not run it, and who did what.
            ('job_signature', 'r', 'raw', 'r'),
            ('refusal', 'rawd', 'rd', 'r'),
            ('audit', 'r', 'r', 'r'),
            -- Partitions that statements name, to say what fell into them.
            ('run_history_default', 'r', 'r', 'r'),
            ('attempt_default', 'r', 'r', 'r'),
            ('run_log_default', 'r', 'r', 'r'),
            ('event_default', 'r', 'r', 'r'),
            -- Views.
            ('current_epoch', 'r', 'r', 'r'),
            ('database', 'r', 'r', 'r'),
            ('run', 'r', 'r', 'r'),
            ('job_status', 'r', 'r', 'r'),
            ('lease_holder', 'r', 'r', 'r'),
            ('holding', 'r', 'r', 'r'),
            ('waiting', 'r', 'r', 'r'),
            ('history_partition', 'r', 'r', 'r')
        ) AS t(name, agent, operator, viewer)
        CROSS JOIN LATERAL (
            SELECT v.who, v.given, regexp_replace(v.given, '[(].*[)]', '') AS may
            FROM (VALUES ('agent', t.agent), ('operator', t.operator), ('viewer', t.viewer)) AS v(who, given)
        ) w
        WHERE to_regclass(format('farmhand.%I', t.name)) IS NOT NULL AND w.may <> ''
        UNION ALL
        -- Tokens without their hashes.
        SELECT 'TABLE', 'farmhand.api_token', 'viewer',
            'SELECT (token_id, name, role, jobs, created_at, created_by, expires_at, last_used_at, revoked_at)'
        WHERE to_regclass('farmhand.api_token') IS NOT NULL
        UNION ALL
        -- The database itself says when, by which login, and from where.
        SELECT 'TABLE', 'farmhand.audit', w.who,
            'INSERT (actor, token_id, action, address, job_id, run_id, refused, what, detail)'
        FROM unnest(ARRAY['agent', 'operator']) AS w(who)
        UNION ALL
        -- To take numbers, and to see how far they have come.
        SELECT 'SEQUENCE', format('farmhand.%I', s.name), w.who, 'USAGE, SELECT'
        FROM (VALUES
            ('run_id_seq', ARRAY['agent', 'operator']),
            ('fence_seq', ARRAY['agent']),
            ('event_id_seq', ARRAY['agent', 'operator'])
        ) AS s(name, whom) CROSS JOIN LATERAL unnest(s.whom) AS w(who)
        UNION ALL
        -- A view's functions are asked of whoever reads the view, a trigger's of whoever writes.
        SELECT 'FUNCTION', p.oid::regprocedure::text, w.who, 'EXECUTE'
        FROM (VALUES
            ('submit', ARRAY['agent', 'submitter', 'operator']),
            ('check_params', ARRAY['agent', 'operator']),
            ('submit_run', ARRAY['agent', 'operator']),
            ('acquire', ARRAY['submitter', 'operator']),
            ('try_acquire', ARRAY['submitter', 'operator']),
            ('renew', ARRAY['submitter', 'operator']),
            ('release', ARRAY['submitter', 'operator']),
            ('server', ARRAY['agent', 'operator', 'viewer', 'rows']),
            ('system_id', ARRAY['agent', 'operator', 'viewer']),
            ('raise_sequences', ARRAY['agent']),
            ('ended', ARRAY['agent', 'operator']),
            ('any_waiting', ARRAY['agent', 'operator', 'viewer']),
            ('rate_free_at', ARRAY['agent', 'operator', 'viewer']),
            ('may_keep', ARRAY['agent', 'operator', 'viewer']),
            ('takes_work', ARRAY['agent', 'operator', 'viewer']),
            ('gated_at', ARRAY['agent', 'operator', 'viewer']),
            ('waits_for', ARRAY['agent', 'operator', 'viewer']),
            ('be_alone', ARRAY['agent']),
            ('claim_gated', ARRAY['agent']),
            ('lock_names', ARRAY['agent']),
            ('any_leased', ARRAY['agent', 'operator', 'viewer']),
            ('free_node', ARRAY['agent', 'operator']),
            ('shown_lease', ARRAY['agent']),
            ('awaited_leases', ARRAY['agent']),
            ('free_lease', ARRAY['agent']),
            ('table_name', ARRAY['agent', 'operator', 'viewer', 'rows']),
            ('table_columns', ARRAY['agent', 'operator', 'viewer', 'rows']),
            ('key_columns', ARRAY['agent', 'operator', 'viewer', 'rows']),
            ('has_order', ARRAY['agent', 'operator', 'viewer', 'rows']),
            ('check_table', ARRAY['agent', 'operator', 'viewer', 'rows']),
            ('rows_due_sql', ARRAY['agent', 'rows']),
            ('dispatch_rows', ARRAY['agent', 'rows']),
            ('row_room', ARRAY['agent', 'rows']),
            ('make_row_runs', ARRAY['agent', 'rows']),
            ('row_writes', ARRAY['agent', 'rows']),
            ('lock_blockers', ARRAY['agent', 'operator']),
            ('goes_to', ARRAY['agent', 'operator', 'viewer']),
            ('ending', ARRAY['agent', 'operator']),
            ('skipped', ARRAY['agent', 'operator']),
            ('end_runs', ARRAY['agent', 'operator']),
            ('write_ends', ARRAY['agent', 'operator']),
            ('count_ends', ARRAY['agent', 'operator']),
            ('note_ends', ARRAY['agent', 'operator']),
            ('tell_ends', ARRAY['agent', 'operator']),
            ('end_rows', ARRAY['agent', 'operator']),
            ('prompt', ARRAY['agent', 'operator']),
            ('let_go', ARRAY['agent', 'operator']),
            ('make_rounds', ARRAY['agent', 'operator']),
            ('settle_pending', ARRAY['agent', 'operator']),
            ('is_in_the_way', ARRAY['agent', 'operator']),
            ('make_runs', ARRAY['agent', 'operator']),
            ('may_make', ARRAY['agent', 'operator']),
            ('overlap_says', ARRAY['agent', 'operator']),
            ('fire', ARRAY['agent', 'operator']),
            ('firing_end', ARRAY['agent', 'operator', 'viewer']),
            ('run_params', ARRAY['agent', 'operator', 'viewer']),
            ('may_come', ARRAY['agent', 'operator', 'viewer']),
            ('parent_stands', ARRAY['agent', 'operator', 'viewer']),
            ('stream_items', ARRAY['agent', 'operator', 'viewer']),
            ('is_duration', ARRAY['agent', 'operator', 'viewer']),
            ('is_date', ARRAY['agent', 'operator', 'viewer']),
            ('param_wrong', ARRAY['agent', 'operator', 'viewer']),
            ('ensure_partitions', ARRAY['agent']),
            ('drop_partitions', ARRAY['agent']),
            ('trim_history', ARRAY['agent']),
            ('forget_audit', ARRAY['agent']),
            ('keep_places', ARRAY['agent', 'operator']),
            ('turn', ARRAY['agent']),
            ('shown_state', ARRAY['agent', 'operator', 'viewer']),
            ('owes_success', ARRAY['agent', 'operator', 'viewer']),
            ('ran_ms', ARRAY['agent', 'operator', 'viewer']),
            ('waits_since', ARRAY['agent', 'operator', 'viewer']),
            -- Checks of tables ask it as whoever writes.
            ('is_readable', ARRAY['agent', 'operator']),
            ('overlaps', ARRAY['agent', 'operator', 'viewer']),
            ('is_too_late', ARRAY['agent', 'operator', 'viewer']),
            ('left_to_others', ARRAY['agent', 'operator']),
            ('done_tasks', ARRAY['agent']),
            ('hold_token', ARRAY['agent', 'operator']),
            ('known_credential', ARRAY['agent']),
            ('begin_session', ARRAY['agent']),
            ('end_session', ARRAY['agent'])
        ) AS f(name, whom)
        JOIN pg_proc p ON p.pronamespace = 'farmhand'::regnamespace AND p.proname = f.name
        CROSS JOIN LATERAL unnest(f.whom) AS w(who)
    LOOP
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = prefix || '_' || g.who);
        EXECUTE format('GRANT %s ON %s %s TO %I', g.may, g.kind, g.name, prefix || '_' || g.who);
    END LOOP;
END
$$;
