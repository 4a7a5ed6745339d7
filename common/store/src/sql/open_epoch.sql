-- Names what was watched, so that of two agents one opens. $4: the highest epoch that the agent remembers; $6: how much higher
-- the next one is, since who has not been there leaves room for what it cannot know of. $5: the highest number of a run that it
-- remembers; 0 for none. What is said to be far above the newest epoch is no epoch that anybody has seen: it would use up the numbers. An
-- agent that has finds a lower one then, and closes it.
WITH d AS MATERIALIZED (
    SELECT d.*, e.server AS opened_on, e.system_id AS cluster, farmhand.system_id() AS cluster_now, f.seen_epoch, f.seen_run,
        -- Of the rows: the sequence was raised before, and a copy's may be ahead of them.
        greatest((SELECT max(r.run_id) FROM farmhand.run_live r), (SELECT max(h.run_id) FROM farmhand.run_history h), 0)
            AS known_run
    FROM farmhand.database d JOIN farmhand.epoch e ON e.id = d.id CROSS JOIN farmhand.farm f
    WHERE d.id = $1 AND d.server = $2 AND NOT d.open
), made AS (
    INSERT INTO farmhand.epoch (epoch, server, follows, system_id, opened_by)
    SELECT greatest(d.epoch, least(greatest(d.seen_epoch, $4), d.epoch + 1000)) + $6, d.server, d.id, d.cluster_now, $3
    FROM d
    ON CONFLICT DO NOTHING
    RETURNING epoch
)
SELECT m.epoch, d.epoch AS follows, d.opened_on, d.cluster::text AS cluster, d.server AS server_now,
    d.cluster_now::text AS cluster_now,
    CASE WHEN greatest(d.seen_run, $5) > 0 THEN greatest(greatest(d.seen_run, $5) - d.known_run, 0) END AS runs_forgotten
FROM made m CROSS JOIN d
