INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, attempt, address, session, fence, detail)
SELECT statement_timestamp(), g.kind, g.severity, g.job_id, g.run_id, g.attempt, g.address, g.session, g.fence,
    coalesce(g.detail, '{}')
FROM json_array_elements($1) WITH ORDINALITY AS e(value, nth)
CROSS JOIN LATERAL json_to_record(e.value) AS g(kind text, severity text, job_id text, run_id bigint,
    attempt integer, address text, session bigint, fence bigint, detail jsonb)
ORDER BY e.nth
