SELECT r.jobs FROM farmhand.restriction r WHERE r.kind = 'login' AND r.name = session_user
