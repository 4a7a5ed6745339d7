SELECT n.id, n.target, n.channel, n.topic, n.job_id, n.run_id, n.state, n.created_at, n.tries, n.next_at, n.sent_by,
    n.ended_at, n.error
FROM farmhand.notification n WHERE n.id = ANY ($1) ORDER BY n.channel DESC
