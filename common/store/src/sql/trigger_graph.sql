SELECT e.parent, e.child, EXISTS (SELECT FROM farmhand.job j WHERE j.job_id = e.parent AND NOT j.deleted) AS known
FROM farmhand.trigger_edge e
ORDER BY e.child, e.nth
