SELECT t.name, t.spec, t.source FROM farmhand.notify_target t ORDER BY t.name FOR UPDATE OF t
