-- Every job that somebody waits for, or that lacks a round.
SELECT j.job_id, j.kind = 'continuous' AS continuous FROM farmhand.job j
WHERE j.job_id IN (SELECT r.job_id FROM farmhand.run_live r WHERE r.gate = 'overlap'
        UNION ALL
        SELECT c.job_id FROM farmhand.job c
        WHERE c.kind = 'continuous' AND c.state = 'enabled'
            AND c.instances > (SELECT count(*) FROM farmhand.run_live r
                WHERE r.job_id = c.job_id AND r.kind = 'continuous' AND r.instance < c.instances))
    AND (SELECT e.open FROM farmhand.current_epoch e)
ORDER BY j.job_id
FOR UPDATE
