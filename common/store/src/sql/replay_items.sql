-- A new run for lines of run $1 that were given up, or that it was to replay and ended before, and that no run has replayed: of
-- $3 when given, at most $4 of them and $5 bytes, because they go through the new run's standard input.
WITH old AS MATERIALIZED (
    SELECT r.run_id, r.job_id, r.instance, r.instances, r.node, r.due_at, r.params FROM farmhand.run_live r
    WHERE r.run_id = $1
    UNION ALL
    SELECT h.run_id, h.job_id, h.instance, h.instances, h.node, h.due_at, h.params FROM farmhand.run_history h
    WHERE h.run_id = $1
    LIMIT 1
), fits AS MATERIALIZED (
    SELECT o.*, j.state, j.observe, v.spec->'params' AS declared
    FROM old o JOIN farmhand.job j ON j.job_id = o.job_id AND j.work = 'stream' AND NOT j.deleted
    JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
), left_over AS MATERIALIZED (
    SELECT s.item, s.line FROM farmhand.stream_item s
    WHERE s.run_id = $1 AND ($3::bigint[] IS NULL OR s.item = ANY ($3))
        AND (s.outcome IN ('failed', 'timed_out')
            OR s.outcome = 'waiting' AND NOT EXISTS (SELECT FROM farmhand.run_live r WHERE r.run_id = $1))
        AND NOT EXISTS (SELECT FROM farmhand.stream_item p WHERE p.of_run = $1 AND p.item = s.item)
    ORDER BY s.item
    LIMIT $4
), chosen AS MATERIALIZED (
    SELECT c.item, c.line
    FROM (SELECT l.*, sum(octet_length(l.line) + 32) OVER (ORDER BY l.item) AS bytes FROM left_over l) c
    WHERE c.bytes <= $5
), made AS MATERIALIZED (
    SELECT m.run_ids[1] AS run_id, m.job_id
    FROM (SELECT f.* FROM fits f WHERE EXISTS (SELECT FROM chosen)
            AND CASE WHEN farmhand.may_make('replay', f.state, f.observe) = 'run'
                THEN farmhand.check_params(f.job_id, f.declared, f.params) ELSE true END OFFSET 0) f
    CROSS JOIN LATERAL farmhand.make_runs('replay', ARRAY[jsonb_populate_record(NULL::farmhand.want, jsonb_build_object(
        'job_id', f.job_id, 'due', jsonb_build_array(f.due_at), 'node', f.node, 'instance', f.instance, 'instances', f.instances,
        'overlap', 'allow', 'params', f.params, 'made', jsonb_build_object(
            'parent_run', f.run_id, 'by_hand', true, 'submitted_by', $2::text)))]) m
), put AS (
    INSERT INTO farmhand.stream_item (run_id, item, outcome, of_run, attempt, failures, line, stored_at)
    SELECT m.run_id, c.item, 'waiting', $1, 0, 0, c.line, statement_timestamp() FROM made m CROSS JOIN chosen c
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, detail)
    SELECT statement_timestamp(), 'retry_by_hand', 'info', m.job_id, m.run_id,
        jsonb_build_object('by', $2, 'of', $1, 'items', (SELECT count(*) FROM chosen))
    FROM made m
)
SELECT EXISTS (SELECT FROM old) AS known, EXISTS (SELECT FROM fits) AS fits,
    (SELECT f.state FROM fits f WHERE farmhand.may_make('replay', f.state, f.observe) = 'refuse') AS refused,
    (SELECT count(*) FROM chosen) AS items, (SELECT run_id FROM made) AS new_run
