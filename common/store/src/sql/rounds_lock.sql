-- Every job that lacks a round.
SELECT c.job_id FROM farmhand.job c
WHERE c.kind = 'continuous' AND c.state = 'enabled'
    AND c.instances > (SELECT count(*) FROM farmhand.run_live r
        WHERE r.job_id = c.job_id AND r.kind = 'continuous' AND r.instance < c.instances)
    AND (SELECT e.open FROM farmhand.current_epoch e)
ORDER BY c.job_id
FOR UPDATE
