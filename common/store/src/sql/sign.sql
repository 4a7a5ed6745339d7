-- Vouchers for revisions, kept with them; whoever refused one of them may think again.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1) AS g(job_id text, rev bigint, document text, key text, signature text)
), put AS (
    INSERT INTO farmhand.job_signature AS s (job_id, rev, document, key_name, signature, stored_by, stored_at)
    SELECT g.job_id, g.rev, g.document, g.key, g.signature, $2, statement_timestamp() FROM given g
    ON CONFLICT (job_id, rev) DO UPDATE SET document = excluded.document, key_name = excluded.key_name,
        signature = excluded.signature, stored_by = excluded.stored_by, stored_at = excluded.stored_at
    WHERE s.signature <> excluded.signature
    RETURNING s.job_id, s.rev, s.key_name
), again AS (
    DELETE FROM farmhand.refusal f USING put p WHERE f.job_id = p.job_id AND f.rev = p.rev
), told AS (
    INSERT INTO farmhand.event (at, kind, severity, job_id, detail)
    SELECT statement_timestamp(), 'job_signed', 'info', p.job_id,
        jsonb_build_object('by', $2, 'rev', p.rev, 'key', p.key_name)
    FROM put p ORDER BY p.job_id
)
SELECT p.job_id, p.rev FROM put p
