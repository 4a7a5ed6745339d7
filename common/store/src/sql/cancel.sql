-- Of these runs ($1) those that wait end, and the nodes of those that run are asked to end them.
WITH target AS MATERIALIZED (
    SELECT r AS run FROM farmhand.run_live r WHERE r.run_id = ANY ($1) ORDER BY r.run_id FOR UPDATE
), ended AS MATERIALIZED (
    SELECT count(*) FROM farmhand.end_runs(ARRAY(
        SELECT farmhand.ending(t.run, 'cancelled', 'cancelled', 'cancel', jsonb_build_object('cancel_by', $2))
        FROM target t WHERE (t.run).state = 'due'))
), asked AS (
    UPDATE farmhand.run_live r SET cancel_by = coalesce(r.cancel_by, $2)
    FROM target t WHERE r.run_id = (t.run).run_id AND (t.run).state = 'running'
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, attempt, detail)
    SELECT statement_timestamp(), 'cancel', 'info', (t.run).job_id, (t.run).run_id, nullif((t.run).attempt, 0),
        jsonb_build_object('by', $2)
    -- One of many ($3) is told by their one event.
    FROM target t WHERE NOT $3
)
SELECT (t.run).run_id, (t.run).running_at AS node,
    EXISTS (SELECT FROM farmhand.node n WHERE n.address = (t.run).running_at AND n.session > (t.run).session) AS held,
    CASE WHEN (t.run).state = 'running' THEN pg_notify('farmhand',
        json_build_object('cancel', (t.run).run_id, 'node', (t.run).running_at)::text)::text END AS note
FROM target t CROSS JOIN ended
