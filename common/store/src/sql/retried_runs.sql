-- Of these ended runs those that a later retry repeats. A retry names the run that it repeats, one of a triggered run names the run
-- that triggered both.
WITH old AS MATERIALIZED (
    SELECT h.run_id, h.job_id, h.instance, h.node, h.parents,
        CASE WHEN h.parents IS NULL THEN h.run_id ELSE h.parent_run END AS named
    FROM farmhand.run_history h WHERE h.run_id = ANY ($1)
), again AS MATERIALIZED (
    SELECT r.run_id, r.job_id, r.instance, r.node, r.made->'parents' AS parents, (r.made->>'parent_run')::bigint AS parent_run
    FROM farmhand.run_live r
    WHERE r.kind = 'retry' AND r.job_id = ANY (ARRAY(SELECT o.job_id FROM old o))
    UNION ALL
    SELECT r.run_id, r.job_id, r.instance, r.node, r.parents, r.parent_run
    FROM farmhand.run_history r
    WHERE r.kind = 'retry' AND r.job_id = ANY (ARRAY(SELECT o.job_id FROM old o))
        AND r.run_id > (SELECT min(o.run_id) FROM old o)
)
SELECT DISTINCT o.run_id FROM old o
JOIN again a ON a.parent_run = o.named AND a.run_id > o.run_id
    AND a.job_id = o.job_id AND a.instance = o.instance AND a.node IS NOT DISTINCT FROM o.node
    AND a.parents IS NOT DISTINCT FROM o.parents
