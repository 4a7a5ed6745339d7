-- What claim_gated won, as claim answers. Apart from it, so that no slow reader keeps its lock.
SELECT w.run_id, w.job_id, w.rev, w.kind, w.instance, w.instances, w.node, w.due_at, w.ready_at, w.attempt, w.fence,
    w.retries, w.takeovers, w.priority, w.params, (w.made->>'parent_run')::bigint AS parent_run, w.made->'parents' AS parents, w.firing, w.reason, w.claimed_at, w.key,
    coalesce(v.spec, 'null') AS spec, p.checkpoint,
    CASE WHEN jsonb_typeof(v.spec->'stream') = 'object' THEN farmhand.stream_items(w.run_id) END AS items,
    CASE WHEN jsonb_typeof(v.spec->'flow') = 'object' THEN farmhand.done_tasks(w.run_id, v.spec->>'resume') END AS done
FROM farmhand.run_live w
LEFT JOIN farmhand.job_revision v ON v.job_id = w.job_id AND v.rev = w.rev
LEFT JOIN farmhand.progress p ON p.run_id = w.run_id
WHERE w.run_id = ANY ($1) AND w.state = 'running' AND w.running_at = $2 AND w.session = $3
ORDER BY w.priority DESC, w.ready_at, w.run_id
