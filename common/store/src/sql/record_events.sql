WITH given AS MATERIALIZED (
    SELECT g.*, e.nth
    FROM json_array_elements($1) WITH ORDINALITY AS e(value, nth)
    CROSS JOIN LATERAL json_to_record(e.value) AS g(kind text, severity text, job_id text, run_id bigint,
        attempt integer, address text, session bigint, fence bigint, detail jsonb)
), refused AS (
    -- What was refused of who showed a known token is kept as long as what was done.
    INSERT INTO farmhand.audit (actor, action, refused, what, detail)
    SELECT left(concat(g.detail->>'token', '@' || (g.detail->>'remote')), 200), 'refused', g.detail->>'reason',
        left(concat_ws(' ', nullif(g.detail->>'method', ''), g.detail->>'path'), 2000), g.detail
    FROM given g WHERE g.kind = 'http_refused' AND g.detail->>'token' IS NOT NULL ORDER BY g.nth
)
INSERT INTO farmhand.event (at, kind, severity, job_id, run_id, attempt, address, session, fence, detail)
SELECT statement_timestamp(), g.kind, g.severity, g.job_id, g.run_id, g.attempt, g.address, g.session, g.fence,
    coalesce(g.detail, '{}')
FROM given g
ORDER BY g.nth
