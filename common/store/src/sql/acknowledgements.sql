SELECT a.kind || ':' || a.name AS cause, a.acknowledged_by AS by, a.at, a.until, a.note FROM farmhand.acknowledgement a
WHERE a.until > statement_timestamp()
ORDER BY a.until, a.kind, a.name LIMIT 1000
