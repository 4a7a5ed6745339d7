INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
VALUES (statement_timestamp(), $1, 'info', $2, $3)
RETURNING event_id
