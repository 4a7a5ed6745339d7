-- Ends runs that no node claimed within the time that their jobs give. A run that is being claimed is passed over. While claims
-- are closed it is not known what was claimed.
WITH chosen AS MATERIALIZED (
    SELECT r AS run FROM farmhand.run_live r
    WHERE farmhand.is_too_late(r) AND (SELECT e.open FROM farmhand.current_epoch e)
    ORDER BY r.run_id
    FOR UPDATE SKIP LOCKED
), ended AS MATERIALIZED (
    SELECT e.run_id FROM farmhand.end_runs(ARRAY(
        SELECT farmhand.ending(c.run, 'skipped', 'too_late', 'schedule') FROM chosen c)) e
)
SELECT (c.run).job_id, '{}'::bigint[] AS run_ids, '{}'::bigint[] AS cancelling,
    jsonb_build_array(jsonb_build_object('reason', 'too_late', 'count', count(DISTINCT (c.run).due_at))) AS skipped
FROM chosen c JOIN ended e ON e.run_id = (c.run).run_id
GROUP BY 1
