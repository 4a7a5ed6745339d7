WITH old AS (
    SELECT * FROM farmhand.run_history WHERE run_id = $1 LIMIT 1
), lines AS MATERIALIZED (
    -- Of a stream's run that replays lines: what is left of them is replayed, and nothing else of the list.
    SELECT s.item, s.line, s.outcome IN ('waiting', 'failed', 'timed_out') AND NOT EXISTS (
        SELECT FROM farmhand.stream_item p WHERE p.of_run = $1 AND p.item = s.item) AS is_left
    FROM farmhand.stream_item s WHERE s.run_id = $1 AND s.of_run IS NOT NULL
), made AS MATERIALIZED (
    SELECT m.run_ids[1] AS run_id, m.job_id
    FROM (SELECT o.*, j.overlap AS rule FROM old o JOIN farmhand.job j ON j.job_id = o.job_id
        JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
        WHERE (NOT EXISTS (SELECT FROM lines) OR EXISTS (SELECT FROM lines l WHERE l.is_left))
            AND CASE WHEN farmhand.may_make('retry', j.state, j.observe) = 'run' AND o.key IS NULL
                THEN farmhand.check_params(j.job_id, v.spec->'params', o.params) ELSE true END OFFSET 0) o
    CROSS JOIN LATERAL farmhand.make_runs('retry', ARRAY[jsonb_populate_record(NULL::farmhand.want, jsonb_build_object(
        'job_id', o.job_id, 'due', jsonb_build_array(o.due_at), 'node', o.node, 'instance', o.instance, 'instances', o.instances,
        -- One of many ($5) goes through the rule of its job, as a backfill does. Rows of a table have no such rule.
        'overlap', CASE WHEN $5 AND o.rule <> 'allow' AND o.key IS NULL THEN 'queue' ELSE 'allow' END,
        -- What a triggered run repeats keeps the run that triggered it; a shard's repetition counts for its firing.
        'made', (CASE WHEN o.parents IS NULL THEN jsonb_build_object('parent_run', o.run_id)
            ELSE jsonb_build_object('parent_run', o.parent_run, 'parents', o.parents) END)
            || CASE WHEN o.by_hand THEN '{"by_hand": true}' ELSE '{}' END::jsonb || jsonb_build_object('submitted_by', $2::text),
        'firing', o.firing, 'params', o.params, 'key', o.key))]) m
    -- None where the row of a table has another run.
    WHERE m.run_ids <> '{}'
), put AS (
    INSERT INTO farmhand.stream_item (run_id, item, outcome, of_run, attempt, failures, line, stored_at)
    SELECT m.run_id, l.item, 'waiting', $1, 0, 0, l.line, statement_timestamp()
    FROM made m CROSS JOIN lines l WHERE l.is_left
), kept AS (
    -- With from-failed ($3) the new run takes over, as attempt 0, the tasks that succeeded in the old one.
    INSERT INTO farmhand.task (run_id, task, attempt, address, outcome, started_at, ended_at, exit_code,
        signal, cpu_ms, max_rss_bytes, reason, blame, stored_at)
    SELECT m.run_id, l.task, 0, l.address, l.outcome, l.started_at, l.ended_at, l.exit_code, l.signal,
        l.cpu_ms, l.max_rss_bytes, l.reason, l.blame, statement_timestamp()
    FROM made m
    CROSS JOIN (SELECT DISTINCT ON (t.task) t.* FROM farmhand.task t WHERE t.run_id = $1
        ORDER BY t.task, t.attempt DESC) l
    WHERE $3 AND l.outcome = 'succeeded'
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, detail)
    SELECT statement_timestamp(), 'retry_by_hand', 'info', m.job_id, m.run_id,
        jsonb_build_object('by', $2, 'of', $1)
    -- One of many ($4) is told by their one event.
    FROM made m WHERE NOT $4
)
SELECT EXISTS (SELECT FROM old) AS ended,
    EXISTS (SELECT FROM farmhand.run_live WHERE run_id = $1) AS live,
    EXISTS (SELECT FROM old o JOIN farmhand.run_live r ON r.job_id = o.job_id AND md5(r.key) = md5(o.key))
        AS row_live,
    (SELECT j.state FROM old o JOIN farmhand.job j ON j.job_id = o.job_id AND NOT j.deleted
        AND farmhand.may_make('retry', j.state, j.observe) = 'refuse') AS refused,
    EXISTS (SELECT FROM old o JOIN farmhand.job j ON j.job_id = o.job_id
        WHERE o.key IS NOT NULL AND j.kind <> 'table' AND NOT j.deleted) AS of_no_table,
    EXISTS (SELECT FROM lines) AND NOT EXISTS (SELECT FROM lines l WHERE l.is_left) AS no_lines,
    (SELECT run_id FROM made) AS new_run
