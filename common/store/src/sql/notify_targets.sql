-- Targets, and those that jobs name and nobody defines.
SELECT coalesce(t.name, u.target) AS name, t.spec, coalesce(t.source, '') AS source,
    ARRAY(SELECT e.job_id FROM farmhand.notify_edge e WHERE e.target = coalesce(t.name, u.target)
        ORDER BY e.job_id) AS jobs,
    (SELECT count(*) FROM farmhand.notification n
        WHERE n.target = coalesce(t.name, u.target) AND n.state = 'waiting') AS waiting,
    (SELECT count(*) FROM farmhand.notification n WHERE n.target = coalesce(t.name, u.target) AND n.state = 'failed'
        AND n.ended_at > statement_timestamp() - interval '1 day') AS failed,
    (SELECT max(n.ended_at) FROM farmhand.notification n
        WHERE n.target = coalesce(t.name, u.target) AND n.state = 'delivered') AS last_delivery,
    (SELECT jsonb_build_object('channel', n.channel, 'error', n.error, 'tries', n.tries, 'since', n.created_at,
            'sent_by', n.sent_by, 'over', n.state <> 'waiting')
        FROM farmhand.notification n
        WHERE n.target = coalesce(t.name, u.target) AND n.error IS NOT NULL AND n.state <> 'delivered'
            AND (n.state = 'waiting' OR n.ended_at > statement_timestamp() - interval '1 day')
        ORDER BY n.created_at DESC, n.id LIMIT 1) AS trouble
FROM farmhand.notify_target t
FULL JOIN (SELECT DISTINCT e.target FROM farmhand.notify_edge e) u ON u.target = t.name
ORDER BY 1
