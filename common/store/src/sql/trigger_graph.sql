SELECT e.parent, e.child, j.job_id IS NOT NULL AS known, e.several AND coalesce(j.kind = 'continuous', false) AS endless
FROM farmhand.trigger_edge e
LEFT JOIN farmhand.job j ON j.job_id = e.parent AND NOT j.deleted
ORDER BY e.child, e.nth
