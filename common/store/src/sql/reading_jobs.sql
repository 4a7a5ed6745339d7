-- A page of jobs, and in the same statement the last outcomes of each.
WITH page AS MATERIALIZED (
    SELECT j.job_id, j.rev, j.state, j.paused_by, j.paused_at, j.pause_reason, k.kind,
        j.each_node, j.instances, j.next_run, j.source, j.applied_by, j.applied_at,
        v.spec - '{env,stdin,exclude,flow}'::text[] AS spec,
        j.fires AND coalesce(j.next_run < statement_timestamp() - interval '10 seconds', false) AS overdue,
        -- Those that were never tried come first; of the others a hundred are looked at, for many may be taken over at once.
        EXISTS (SELECT FROM (SELECT r.run_id, r.attempt, r.ready_at, e.at AS enough FROM farmhand.run_live r
                CROSS JOIN LATERAL (SELECT statement_timestamp()
                    - CASE WHEN r.gate IS NULL THEN interval '1 minute' ELSE interval '5 minutes' END AS at) e
                WHERE r.job_id = j.job_id AND r.state = 'due' AND r.gate IS DISTINCT FROM 'overlap' AND r.ready_at < e.at
                ORDER BY r.attempt > 0, r.ready_at LIMIT 100) r
            CROSS JOIN LATERAL farmhand.waits_since(r.run_id, r.attempt, r.ready_at) w WHERE w.since < r.enough) AS waiting,
        s.last_run_started, s.last_finished, s.last_state, s.last_success,
        coalesce(s.consecutive_failures, 0) AS consecutive_failures, o.rank
    FROM farmhand.job j
    JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
    LEFT JOIN farmhand.job_stat s ON s.job_id = j.job_id
    -- What is run, where that says more than what makes its runs.
    CROSS JOIN LATERAL (SELECT CASE j.work WHEN 'command' THEN j.kind ELSE j.work END AS kind) k
    -- What is listed first has the smallest; those without an instant come last, and those whose instant is beyond the calendar.
    CROSS JOIN LATERAL (SELECT CASE $8::text
        WHEN 'failures' THEN -coalesce(s.consecutive_failures, 0)::bigint
        WHEN 'next' THEN coalesce((extract(epoch FROM CASE WHEN isfinite(j.next_run) AND j.next_run < '9999-01-01 UTC'
            THEN j.next_run END) * 1000000)::bigint, 9223372036854775807)
        WHEN 'last_end' THEN coalesce(-(extract(epoch FROM CASE WHEN isfinite(s.last_finished)
            AND s.last_finished < '9999-01-01 UTC' THEN s.last_finished END) * 1000000)::bigint, 9223372036854775807)
        ELSE 0 END AS rank) o
    WHERE NOT j.deleted AND ($1::text IS NULL OR j.job_id = $1)
        AND ($6::text IS NULL OR CASE WHEN $8 = 'name' THEN j.job_id > $6 ELSE (o.rank, j.job_id) > ($9::bigint, $6) END)
        AND ($2::text IS NULL OR strpos(lower(j.job_id), lower($2)) > 0)
        AND ($5::jsonb IS NULL OR $5 <@ ANY (j.placement))
        AND ($3::text IS NULL OR CASE $3
            WHEN 'failing' THEN j.state = 'enabled' AND coalesce(s.consecutive_failures, 0) > 0
            WHEN 'running' THEN EXISTS (SELECT FROM farmhand.run_live r
                WHERE r.job_id = j.job_id AND r.state = 'running')
            WHEN 'overdue' THEN j.fires AND j.next_run < statement_timestamp() - interval '10 seconds'
            ELSE j.state = $3 END)
        AND ($4::text IS NULL OR $4 = k.kind)
    ORDER BY o.rank, j.job_id
    LIMIT $7
)
SELECT p.*,
    (SELECT coalesce(jsonb_agg(to_jsonb(o) ORDER BY o.run_id DESC), '[]') FROM (
        SELECT r.run_id, r.state, r.due_at, r.started_at, r.finished_at, r.count FROM farmhand.run_history r
        WHERE r.job_id >= p.job_id AND r.job_id <= p.job_id ORDER BY r.job_id, r.run_id DESC LIMIT 30) o) AS outcomes,
    -- What runs comes first, in the order of job_status: any number of older runs may wait.
    (SELECT coalesce(jsonb_agg(to_jsonb(l) ORDER BY l.held_since DESC NULLS LAST, l.run_id), '[]') FROM (
        SELECT r.run_id, r.state, r.running_at AS node, r.ready_at, r.started_at,
            CASE WHEN r.state = 'running' THEN r.claimed_at END AS held_since
        FROM farmhand.run_live r
        WHERE r.job_id = p.job_id ORDER BY held_since DESC NULLS LAST, r.run_id LIMIT 20) l) AS live
FROM page p
ORDER BY p.rank, p.job_id
