-- Renewals of a lease of 3 s must not wait longer behind a step that waits for a lock.
SET LOCAL lock_timeout = '500ms'
