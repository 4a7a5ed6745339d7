-- Whether sessions that have ended hold anything that is not there to be held over.
SELECT EXISTS (SELECT FROM farmhand.run_live r JOIN farmhand.node n ON n.address = r.running_at
    WHERE r.state = 'running' AND r.session < n.session AND r.hold_ms = 0 AND ($1::text IS NULL OR r.running_at = $1)) AS held
