INSERT INTO farmhand.audit (actor, token_id, action, job_id, run_id, address, what, detail)
VALUES (left($1, 200), $2, $3, $4, $5, $6, left($7, 2000),
    CASE WHEN octet_length($8::jsonb::text) <= 8192 THEN $8 ELSE '{"cut": true}' END)
