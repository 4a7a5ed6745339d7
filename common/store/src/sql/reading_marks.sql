-- One look for all pages of an agent. Ends are looked for from some seconds before the last one seen: their instants
-- are of the statements' beginning, and those may be committed in another order.
SELECT (SELECT s.seq FROM farmhand.job_seq s) AS jobs,
    coalesce((SELECT e.event_id FROM farmhand.event e ORDER BY e.event_id DESC LIMIT 1), 0) AS events,
    (SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM farmhand.run_id_seq s) AS runs,
    (SELECT md5(string_agg(concat_ws(' ', n.address, n.session, n.state, n.slots, n.drain_until,
            n.cannot_start IS NOT NULL), ';' ORDER BY n.address))
        FROM farmhand.node n) AS nodes,
    (SELECT h.finished_at FROM farmhand.run_history h ORDER BY h.finished_at DESC LIMIT 1) AS ended_at,
    (SELECT coalesce(jsonb_agg(to_jsonb(l)), '[]') FROM (
        SELECT r.run_id, r.attempt, r.started_at IS NOT NULL AS started, r.cancel_by IS NOT NULL AS cancelling
        FROM farmhand.run_live r WHERE r.state = 'running' LIMIT 2000) l) AS live,
    ARRAY(SELECT h.run_id FROM farmhand.run_history h
        WHERE h.finished_at > coalesce($1, statement_timestamp()) - interval '5 seconds'
        ORDER BY h.finished_at DESC LIMIT 500) AS ended
