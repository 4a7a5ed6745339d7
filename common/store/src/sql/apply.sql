WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1) AS g(job_id text, rev bigint, kind text, work text, enabled boolean, scheduled boolean,
        next_run timestamptz, overlap text, on_lost text, priority integer, hard_ms bigint, claim_within_ms bigint,
        placement jsonb[], instances integer, each_node boolean, observe boolean, source text, spec jsonb)
), revised AS (
    INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at)
    SELECT g.job_id, g.rev, g.spec, g.source, $4, statement_timestamp() FROM given g
), put AS (
    INSERT INTO farmhand.job AS j (job_id, rev, seq, kind, work, enabled, scheduled, next_run, overlap, on_lost, priority,
        hard_ms, claim_within_ms, placement, instances, each_node, observe, source, applied_by, applied_at)
    SELECT g.job_id, g.rev, $3, g.kind, g.work, g.enabled, g.scheduled, CASE WHEN g.enabled THEN g.next_run END, g.overlap,
        g.on_lost, g.priority, g.hard_ms, g.claim_within_ms, g.placement, g.instances, g.each_node,
        g.observe, g.source, $4, statement_timestamp()
    FROM given g ORDER BY g.job_id
    ON CONFLICT (job_id) DO UPDATE SET rev = excluded.rev, seq = excluded.seq, kind = excluded.kind,
        work = excluded.work, enabled = excluded.enabled,
        scheduled = excluded.scheduled,
        next_run = CASE WHEN j.paused AND NOT j.deleted THEN NULL ELSE excluded.next_run END,
        -- A deleted job that comes back is a new one.
        paused = j.paused AND NOT j.deleted, deleted = false,
        overlap = excluded.overlap, on_lost = excluded.on_lost, priority = excluded.priority,
        hard_ms = excluded.hard_ms, claim_within_ms = excluded.claim_within_ms, placement = excluded.placement,
        instances = excluded.instances, each_node = excluded.each_node, observe = excluded.observe,
        source = CASE WHEN $5 OR j.deleted THEN excluded.source ELSE j.source END, applied_by = excluded.applied_by, applied_at = excluded.applied_at
), anew AS (
    -- Nor are the failures of the deleted one its own.
    UPDATE farmhand.job_stat s SET last_run_started = NULL, last_finished = NULL, last_state = NULL, last_success = NULL,
        consecutive_failures = 0
    FROM farmhand.job j
    WHERE j.job_id = s.job_id AND j.deleted AND s.job_id IN (SELECT g.job_id FROM given g)
), gone AS (
    UPDATE farmhand.job j SET deleted = true, next_run = NULL, seq = $3, applied_by = $4,
        applied_at = statement_timestamp()
    WHERE j.job_id = ANY ($2::text[])
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
    SELECT statement_timestamp(), c.kind, 'info', c.job_id, jsonb_strip_nulls(jsonb_build_object('by', $4,
        'rev', c.rev, 'from', c.source, 'withdrawn', c.withdrawn))
    FROM (SELECT 'job_applied' AS kind, g.job_id, g.rev, g.source, NULL::bigint AS withdrawn FROM given g
        UNION ALL SELECT 'job_deleted' AS kind, d, NULL, NULL, nullif(w, 0) FROM unnest($2::text[], $6::bigint[]) AS x(d, w)) c
    ORDER BY c.job_id
)
SELECT pg_notify('farmhand', json_build_object('jobs', $3)::text)::text AS note
