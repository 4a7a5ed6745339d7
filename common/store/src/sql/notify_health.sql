-- Whether the farm does its work: for the sign of life that goes outside.
SELECT (SELECT e.open FROM farmhand.current_epoch e) AS claims_open,
    (SELECT count(*) FROM farmhand.node n WHERE farmhand.shown_state(n) = 'ready') AS ready,
    (SELECT extract(epoch FROM statement_timestamp() - min(j.next_run))::float8 FROM farmhand.job j
        -- Nothing can be subtracted from those that are not.
        WHERE j.fires AND isfinite(j.next_run)) AS overdue
