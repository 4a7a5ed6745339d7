-- Which of these jobs, locked by boot_seen, a boot of this node fires.
SELECT j.job_id, v.spec, j.state
FROM farmhand.node n
CROSS JOIN farmhand.job j
JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
WHERE n.address = $2 AND j.job_id = ANY ($1)
    AND farmhand.may_make('boot', j.state, j.observe) <> 'nothing' AND j.each_node AND (j.placement IS NULL OR n.labels @> ANY (j.placement))
    AND EXISTS (SELECT FROM jsonb_array_elements_text(v.spec->'schedule') s WHERE s ~* '^\s*@reboot\s*$')
ORDER BY j.job_id
