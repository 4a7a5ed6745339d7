SELECT r.due_at FROM farmhand.run_live r
WHERE r.job_id = $1 AND r.due_at >= $2 AND r.due_at < $3 AND r.kind IN ('scheduled', 'backfill')
UNION
SELECT r.due_at FROM farmhand.run_history r
WHERE r.job_id = ANY (ARRAY(SELECT $1 UNION ALL SELECT f.name FROM farmhand.former_name f WHERE f.job_id = $1))
    AND r.due_at >= $2 AND r.due_at < $3 AND r.kind IN ('scheduled', 'backfill') AND r.state <> 'skipped'
