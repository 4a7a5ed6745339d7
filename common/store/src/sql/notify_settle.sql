-- Everything that these notes lead to, in one statement: the notes go, episodes begin, go on and end, and messages are
-- there to be delivered.
WITH done AS (
    DELETE FROM farmhand.notify_note n WHERE n.id = ANY ($1)
), calm AS (
    DELETE FROM farmhand.notify_episode p WHERE p.job_id = ANY ($3)
), episodes AS (
    INSERT INTO farmhand.notify_episode AS p (job_id, failing_since, first_run, failures, late_since)
    SELECT g.job_id, g.failing_since, g.first_run, g.failures, g.late_since
    FROM json_to_recordset($2) AS g(job_id text, failing_since timestamptz, first_run bigint, failures bigint,
        late_since timestamptz)
    ON CONFLICT (job_id) DO UPDATE SET failing_since = excluded.failing_since, first_run = excluded.first_run,
        failures = excluded.failures, late_since = excluded.late_since
)
INSERT INTO farmhand.notification (target, channel, topic, job_id, run_id, key, body)
SELECT g.target, g.channel, g.topic, g.job_id, g.run_id, g.key, g.body
FROM json_to_recordset($4) AS g(target text, channel text, topic text, job_id text, run_id bigint, key text,
    body jsonb)
ON CONFLICT (target, channel, key) DO NOTHING
RETURNING id
