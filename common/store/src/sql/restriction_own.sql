SELECT r.jobs FROM farmhand.restriction r
WHERE (r.kind, r.name) IN (('login', session_user::text), ('token', current_setting('farmhand.token', true)))
