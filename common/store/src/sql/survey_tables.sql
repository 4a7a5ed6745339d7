SELECT j.job_id, v.spec->'table' AS "table",
    (SELECT to_jsonb(c) FROM farmhand.check_table(v.spec->'table') c WHERE NOT j.deleted LIMIT 1) AS problem,
    (SELECT count(*) FROM (SELECT FROM farmhand.row_result p WHERE p.job_id = j.job_id LIMIT 1000) w) AS unwritten,
    (SELECT coalesce(p.error, 'the row is locked by somebody else, or no agent has come to it') FROM farmhand.row_result p
        WHERE p.job_id = j.job_id AND (p.error IS NOT NULL OR p.noted_at < statement_timestamp() - interval '1 minute')
        ORDER BY p.error LIMIT 1) AS error,
    -- Agents name their connections; those of the login for users' rows stay open, too.
    (SELECT min(n.address) FROM farmhand.node n WHERE n.open AND NOT EXISTS (SELECT FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.application_name = left('farmhand rows ' || n.address, 63))) AS own_login
FROM farmhand.job j JOIN farmhand.job_revision v USING (job_id, rev)
WHERE j.kind = 'table'
    AND (NOT j.deleted OR EXISTS (SELECT FROM farmhand.row_result p WHERE p.job_id = j.job_id))
ORDER BY j.job_id
