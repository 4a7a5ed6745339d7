-- Whether sessions that have ended hold anything.
SELECT EXISTS (SELECT FROM farmhand.run_live r JOIN farmhand.node n ON n.address = r.running_at
    WHERE r.state = 'running' AND r.session < n.session AND ($1::text IS NULL OR r.running_at = $1)) AS held
