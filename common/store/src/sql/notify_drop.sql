DELETE FROM farmhand.notification n
WHERE n.state <> 'waiting' AND n.ended_at < statement_timestamp() - $1 * interval '1 day'
