-- Leases messages to one sender for $4 milliseconds: at most two of each target and channel at once, so that one that
-- does not answer keeps no other waiting, and none of those in $3, with whom the sender is busy. Messages about one job
-- arrive in the order of what happened: one waits for the older ones, except for those that have waited for an hour: these hold up a
-- recovery alone, which ends what they open. A mail server may take its time: a mail is leased for longer than a try at it.
WITH recent AS MATERIALIZED (
    SELECT min(n.number) AS first FROM farmhand.notification n
    WHERE n.state = 'waiting' AND n.created_at > statement_timestamp() - interval '1 hour'
), due AS MATERIALIZED (
    SELECT d.id FROM (
        SELECT n.id, n.next_at, row_number() OVER (PARTITION BY n.target, n.channel ORDER BY n.next_at, n.id) AS nth
        FROM farmhand.notification n
        WHERE n.state = 'waiting' AND n.next_at <= statement_timestamp()
            AND n.channel || ' ' || n.target <> ALL ($3)
            AND (n.job_id IS NULL OR n.number <= coalesce((SELECT min(o.number) FROM farmhand.notification o
                WHERE o.state = 'waiting' AND o.target = n.target AND o.channel = n.channel AND o.job_id = n.job_id
                    -- By number, which the index has: each message looks at one row, however many wait.
                    AND o.number >= CASE n.topic WHEN 'recovery' THEN 0 ELSE (SELECT r.first FROM recent r) END), n.number))) d
    WHERE d.nth <= 2
    ORDER BY d.next_at, d.id LIMIT $2
), mine AS MATERIALIZED (
    SELECT n.id FROM farmhand.notification n
    WHERE n.id IN (SELECT d.id FROM due d) AND n.state = 'waiting' AND n.next_at <= statement_timestamp()
    FOR UPDATE OF n SKIP LOCKED
)
UPDATE farmhand.notification n
SET next_at = statement_timestamp() + $4 * CASE n.channel WHEN 'email' THEN 4 ELSE 1 END * interval '1 millisecond',
    tries = n.tries + 1, sent_by = $1
FROM mine m WHERE n.id = m.id
RETURNING n.id, n.target, n.channel, n.topic, n.job_id, n.run_id, n.body, n.created_at, n.tries,
    (n.created_at < statement_timestamp() - interval '1 day') AS old,
    (SELECT t.spec FROM farmhand.notify_target t WHERE t.name = n.target) AS spec
