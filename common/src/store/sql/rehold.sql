WITH me AS MATERIALIZED (
    SELECT n.address, n.session FROM farmhand.node n
    WHERE n.address = $4 AND n.session = $5 AND n.life = $6 AND n.open AND NOT n.condemned
        AND EXISTS (SELECT FROM farmhand.timeline WHERE tli = farmhand.current_timeline())
    FOR KEY SHARE OF n
)
UPDATE farmhand.run_live r SET session = $5
WHERE EXISTS (SELECT FROM me)
    AND r.run_id = $1 AND r.attempt = $2 AND r.fence = $7 AND r.session = $3 AND r.running_at = $4 AND r.state = 'running'
    AND r.hold_ms > 0
RETURNING r.run_id
