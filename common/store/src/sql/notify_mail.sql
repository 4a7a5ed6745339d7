-- Targets that want mail.
SELECT t.name FROM farmhand.notify_target t
WHERE jsonb_typeof(t.spec->'email') = 'array' AND t.spec->'email' <> '[]'
ORDER BY t.name
