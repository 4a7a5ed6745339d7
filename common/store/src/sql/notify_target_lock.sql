SELECT t.name, t.spec FROM farmhand.notify_target t ORDER BY t.name FOR UPDATE OF t
