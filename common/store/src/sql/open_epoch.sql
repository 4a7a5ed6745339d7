-- Names what was watched, so that of two agents one opens. $4: the highest epoch that the agent remembers; one that remembers
-- nothing leaves room for what it cannot know of.
INSERT INTO farmhand.epoch (epoch, server, follows, system_id, opened_by)
SELECT greatest(d.epoch, f.seen_epoch, $4) + CASE WHEN $4 > 0 THEN 1 ELSE 64 END, d.server, d.id, farmhand.system_id(), $3
FROM farmhand.database d CROSS JOIN farmhand.farm f
WHERE d.id = $1 AND d.server = $2 AND NOT d.open
ON CONFLICT DO NOTHING
RETURNING epoch
