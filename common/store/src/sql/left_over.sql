-- What a sweep, `abandon`, `end_late` and the writing of rows would find, asked once a minute by every agent: mostly nothing.
SELECT EXISTS (SELECT FROM farmhand.run_live r JOIN farmhand.node n ON n.address = r.running_at
        WHERE r.state = 'running' AND r.session < n.session) AS to_free,
    EXISTS (SELECT FROM farmhand.job c
        WHERE c.kind = 'continuous' AND c.state = 'enabled'
            AND c.instances > (SELECT count(*) FROM farmhand.run_live r
                WHERE r.job_id = c.job_id AND r.kind = 'continuous' AND r.instance < c.instances)) AS lacks_rounds,
    EXISTS (SELECT FROM farmhand.run_live r LEFT JOIN farmhand.node n ON n.address = r.node
        WHERE r.state = 'due' AND r.node IS NOT NULL AND (n.address IS NULL
            OR n.open AND NOT n.labels @> ANY (r.placement)
            OR NOT n.open AND greatest(n.lease_until, n.lost_at) < statement_timestamp() - $1 * interval '1 second'
                AND r.ready_at < statement_timestamp() - $1 * interval '1 second')) AS to_abandon,
    EXISTS (SELECT FROM farmhand.run_live r WHERE farmhand.is_too_late(r)) AS too_late,
    EXISTS (SELECT FROM farmhand.row_result) AS to_write
