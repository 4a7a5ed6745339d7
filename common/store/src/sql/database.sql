-- For an agent without a session.
SELECT to_jsonb(d) AS database FROM farmhand.database d
