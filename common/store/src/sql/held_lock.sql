-- Waits for whoever has one of these runs locked. What is freed in this transaction afterwards is then all of them: `free` passes over
-- what somebody else has locked.
SELECT r.run_id FROM farmhand.run_live r
WHERE r.state = 'running' AND r.running_at = $1 AND r.session = $2
ORDER BY r.run_id
FOR UPDATE
