INSERT INTO farmhand.restriction (kind, name, jobs, set_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (kind, name) DO UPDATE SET jobs = excluded.jobs, set_by = excluded.set_by, set_at = statement_timestamp()
